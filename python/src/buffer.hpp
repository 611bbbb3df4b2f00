#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

#include "tutti/types.hpp"

namespace tutti::python {

/// A Python object's memory, kept alive and in place as long as this lives.
class Buffer {
 public:
  Buffer() = default;
  /// Of anything with the buffer protocol or DLPack, or of [object, count] or [object, count,
  /// Type]. Throws TypeError, ValueError, BufferError.
  Buffer(nanobind::handle object, bool writable);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] Type type() const { return type_; }

 private:
  void take(nanobind::handle object, bool writable);
  void take_dlpack(nanobind::handle object, bool writable);

  void* data_ = nullptr;
  std::size_t count_ = 0;
  Type type_ = Type::u8;
  Py_buffer view_{};
  bool has_view_ = false;
  nanobind::object owner_;
};

}  // namespace tutti::python
