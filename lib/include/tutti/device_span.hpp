#pragma once

#include <cstddef>

#include "tutti/types.hpp"

namespace tutti {

/// A CUDA stream: a cudaStream_t or CUstream, both of which are pointers. No CUDA header is needed.
struct Stream {
  void* handle = nullptr;  ///< null: CUDA's legacy default stream

  /// The legacy default stream.
  constexpr Stream() = default;
  /// As a cudaStream_t.
  constexpr Stream(void* cuda_stream)  // NOLINT(google-explicit-constructor)
      : handle(cuda_stream) {}
};

/// Elements in the memory of this rank's device, as std::span has them in host memory.
template <Transferable T>
class device_span {  // NOLINT(readability-identifier-naming): named after std::span
 public:
  /// `size` elements from the device address `data`.
  constexpr device_span(T* data, std::size_t size) : data_(data), size_(size) {}
  /// A device address.
  [[nodiscard]] constexpr T* data() const { return data_; }
  /// In elements.
  [[nodiscard]] constexpr std::size_t size() const { return size_; }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace tutti
