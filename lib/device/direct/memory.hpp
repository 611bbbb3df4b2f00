#pragma once

#include <memory>
#include <vector>

#include "call.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "device/setup_exchange.hpp"

namespace tutti::device::direct {

/// What the kernels of a group's ranks use: the staging memory of all, as this rank's GPU sees it
/// (its own, and that of its peers by CUDA IPC), and a flag in host memory that ends their waits.
class SharedStaging {
 public:
  /// Collective. Throws AgreedFailure if a rank can't allocate its memory or map a peer's; memory
  /// that a peer may have mapped then stays until the process ends.
  SharedStaging(std::shared_ptr<const Context> context, const control::Group& group,
                SetupExchange& setup);
  SharedStaging(const SharedStaging&) = delete;
  SharedStaging& operator=(const SharedStaging&) = delete;
  /// Only if no kernel uses it any more, here or on a peer.
  ~SharedStaging();

  [[nodiscard]] std::byte* of(int rank) const { return begins_[static_cast<std::size_t>(rank)]; }
  /// 0 until abort().
  [[nodiscard]] const std::uint32_t* abort_flag() const { return abort_flag_; }
  /// Ends all waits of this rank's kernels. From any thread.
  void abort() noexcept;

 private:
  void allocate(int ranks);
  void import(const std::vector<CudaIpcHandle>& handles);

  std::shared_ptr<const Context> context_;
  int rank_;
  std::vector<std::byte*> begins_;
  std::uint32_t* abort_flag_ = nullptr;
};

}  // namespace tutti::device::direct
