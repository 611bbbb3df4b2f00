#pragma once

#include <memory>

#include "device/context.hpp"

namespace tutti::device {

/// Page-locked host memory, which the device's copy engines reach by themselves.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// The device is current in the calling thread. No bytes, no memory.
  PinnedMemory(std::shared_ptr<const Context> context, const Faults& faults, std::size_t bytes)
      : context_(std::move(context)) {
    if (bytes == 0) return;
    faults.check(context_->cuda().allocate_pinned(&memory_, bytes, 0),
                 "allocating page-locked memory for staging");
    bytes_ = bytes;
  }
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedMemory() {
    if (memory_ != nullptr) context_->cuda().free_pinned(memory_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Context> context_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::device
