#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "call.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "device/setup_exchange.hpp"
#include "window_table.hpp"

namespace tutti::device::direct {

/// A stream of the direct path's own, which waits for no other.
class OwnStream {
 public:
  /// Throws Error{system}.
  explicit OwnStream(std::shared_ptr<const Context> context);
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream();
  [[nodiscard]] CudaStream handle() const { return handle_; }

 private:
  std::shared_ptr<const Context> context_;
  CudaStream handle_ = nullptr;
};

/// What the kernels of a group's ranks use: the staging memory of all, as this rank's GPU sees it
/// (its own, and that of its peers by CUDA IPC), their windows, and a flag in host memory that ends
/// their waits.
class SharedStaging {
 public:
  /// Collective. Throws AgreedFailure if a rank can't allocate its memory or map a peer's; then
  /// nothing stays allocated.
  SharedStaging(std::shared_ptr<const Context> context, const control::Group& group,
                SetupExchange& setup);
  SharedStaging(const SharedStaging&) = delete;
  SharedStaging& operator=(const SharedStaging&) = delete;
  /// Only if no kernel uses it any more, here or on a peer.
  ~SharedStaging();

  [[nodiscard]] std::byte* of(int rank) const { return begins_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int ranks() const { return static_cast<int>(begins_.size()); }
  /// 0 until abort().
  [[nodiscard]] const std::uint32_t* abort_flag() const { return &host_->abort; }
  /// Ends all waits of this rank's kernels. From any thread.
  void abort() noexcept;
  [[nodiscard]] CudaStream stream() const { return stream_.handle(); }
  [[nodiscard]] WindowTable& windows() { return windows_; }
  [[nodiscard]] const WindowTable& windows() const { return windows_; }

  struct Progress {
    /// The latest turn and round of each channel, in the order of the protocols.
    std::array<Packet, std::size_t{protocol_count} * max_channels> channels;
    std::uint64_t waits;  ///< changes while a kernel waits for another rank
  };
  /// Reads it on stream(). Empty if the device has not answered within some milliseconds: then the
  /// next call returns that answer, once it is there. From one thread at a time.
  [[nodiscard]] std::optional<Progress> read_progress();

  /// Queues on stream(): tell the peers that this rank stores nothing more.
  [[nodiscard]] CudaResult queue_goodbye();
  /// Whether all peers have told so. False while stream() is busy.
  [[nodiscard]] bool is_unused();

 private:
  void allocate();
  void import(const std::vector<CudaIpcHandle>& handles);
  void close_imports() noexcept;
  void publish(std::size_t window, const WindowTable::Addresses& of_ranks) const;

  std::shared_ptr<const Context> context_;
  OwnStream stream_;
  int rank_;
  std::vector<std::byte*> begins_;
  /// In page-locked memory, so that neither the device nor a copy waits for the other side.
  struct HostPart {
    std::uint32_t abort;
    Progress progress;
  };
  HostPart* host_ = nullptr;
  bool is_reading_ = false;
  WindowTable windows_;
};

}  // namespace tutti::device::direct
