#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/device_span.hpp"
#include "tutti/export.hpp"

namespace tutti {

/// Elements in memory from Communicator::allocate(): a contiguous range that calls take like any
/// other. Copies share the memory, which is freed with the last of them. It may outlive the
/// communicator.
template <class T>
class TUTTI_EXPORT Allocation {
  static_assert(std::is_trivially_copyable_v<T>, "calls move bytes");

 public:
  /// Empty.
  Allocation() = default;
  /// For the library: `size` elements in `memory`.
  Allocation(std::shared_ptr<void> memory, std::size_t size)
      : memory_(std::move(memory)), size_(size) {}

  /// The first element; null for a default-constructed one.
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(memory_.get()); }
  /// In elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// True without elements.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// The first element.
  [[nodiscard]] T* begin() const noexcept { return data(); }
  /// Past the last element.
  [[nodiscard]] T* end() const noexcept { return data() + size_; }
  /// Element `i`, unchecked.
  T& operator[](std::size_t i) const noexcept { return data()[i]; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_ = 0;
};

/// Elements in device memory from Communicator::allocate_device(). Copies share the memory, which
/// may outlive the communicator. Drop it when the calls that use it have ended.
template <Transferable T>
class TUTTI_EXPORT DeviceAllocation {
 public:
  /// Empty.
  DeviceAllocation() = default;
  /// For the library: `size` elements in `memory`.
  DeviceAllocation(std::shared_ptr<void> memory, std::size_t size)
      : memory_(std::move(memory)), size_(size) {}

  /// A device address; null without elements.
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(memory_.get()); }
  /// In elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// All elements, for calls.
  [[nodiscard]] device_span<T> span() const noexcept { return {data(), size_}; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t size_ = 0;
};

}  // namespace tutti
