#pragma once

#include <cstddef>
#include <memory>

#include "device/context.hpp"

namespace tutti::device {

/// Zeroed device memory, freed with this object in any thread; not in a forked child, where it is
/// still the parent's.
class DeviceBlock {
 public:
  /// The device must be current in the calling thread. Throws Error{system}.
  DeviceBlock(std::shared_ptr<const Context> context, std::size_t bytes);
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  ~DeviceBlock();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Zeroes it, and waits until that is done. As the constructor.
  void clear() const;

 private:
  std::shared_ptr<const Context> context_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  int owner_;  ///< a process
};

}  // namespace tutti::device
