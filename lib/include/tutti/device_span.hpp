#pragma once

#include <cstddef>

#include "tutti/types.hpp"

namespace tutti {

/// A CUDA stream: a cudaStream_t or CUstream, both of which are pointers. No CUDA header is needed.
struct Stream {
  void* handle = nullptr;  ///< null: the default stream

  Stream() = default;
  Stream(void* cuda_stream)
      : handle(cuda_stream) {}  // NOLINT(google-explicit-constructor): as a cudaStream_t
};

/// Elements in the memory of this rank's device, as std::span has them in host memory.
template <Element T>
class device_span {  // NOLINT(readability-identifier-naming): named after std::span
 public:
  device_span(T* data, std::size_t size) : data_(data), size_(size) {}
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace tutti
