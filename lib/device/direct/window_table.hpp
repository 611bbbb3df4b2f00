#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "../device_block.hpp"
#include "call.hpp"
#include "control/group.hpp"
#include "device/setup_exchange.hpp"

namespace tutti::device::direct {

/// The windows of a group: device memory that its ranks have allocated together, and that each has
/// mapped from the others by CUDA IPC. It returns here when the program drops it, for the next
/// allocation, since peers have it mapped.
class WindowTable {
 public:
  using Addresses = std::vector<DeviceAddress>;
  /// Makes a window's addresses, one a rank, known to this rank's kernels. Throws Error{system}.
  using Publish = std::function<void(std::size_t window, const Addresses& of_ranks)>;

  WindowTable(std::shared_ptr<const Context> context, const control::Group& group, Publish publish);
  WindowTable(const WindowTable&) = delete;
  WindowTable& operator=(const WindowTable&) = delete;
  /// Only if no kernel uses the windows any more, here or on a peer. Memory that the program still
  /// has stays.
  ~WindowTable();

  /// Collective; `bytes` is the same on all ranks, and not 0. Zeroed memory, which is only local if
  /// there are too many windows. Throws AgreedFailure if a rank can't allocate its memory or map a
  /// peer's. The device must be current in the calling thread.
  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, SetupExchange& setup);
  /// Where the bytes are, if they are in one window.
  [[nodiscard]] std::optional<Place> find(const void* begin, std::size_t bytes) const;
  void close_imports() noexcept;

 private:
  struct Window;
  using Mask = std::array<std::uint64_t, max_windows / 64>;
  [[nodiscard]] std::shared_ptr<Window> find_unused(std::size_t bytes, SetupExchange& setup) const;
  [[nodiscard]] std::shared_ptr<Window> make(std::size_t bytes, SetupExchange& setup) const;
  void import(Window& window, const std::vector<CudaIpcHandle>& handles) const;

  std::shared_ptr<const Context> context_;
  control::Group group_;
  Publish publish_;
  std::vector<std::shared_ptr<Window>> windows_;
  /// Numbers of windows, in the order of their addresses.
  std::vector<std::size_t> order_;
};

}  // namespace tutti::device::direct
