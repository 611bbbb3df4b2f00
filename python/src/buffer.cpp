#include "buffer.hpp"

#include <nanobind/ndarray.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace tutti::python {
namespace nb = nanobind;
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw nb::type_error(sentence.c_str());
}

std::optional<Type> integer(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? Type::i8 : Type::u8;
    case 2:
      return is_signed ? Type::i16 : Type::u16;
    case 4:
      return is_signed ? Type::i32 : Type::u32;
    case 8:
      return is_signed ? Type::i64 : Type::u64;
    default:
      return std::nullopt;
  }
}

std::optional<Type> floating(std::size_t bytes) {
  switch (bytes) {
    case 2:
      return Type::f16;
    case 4:
      return Type::f32;
    case 8:
      return Type::f64;
    default:
      return std::nullopt;
  }
}

std::optional<Type> complex(std::size_t bytes) {
  if (bytes == 8) return Type::c64;
  return bytes == 16 ? std::optional(Type::c128) : std::nullopt;
}

/// Of the struct module's format, with numpy's Z for complex numbers; the byte order must be this
/// machine's.
std::optional<Type> type_of(const char* format, std::size_t bytes) {
  if (format == nullptr) return Type::u8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strcmp(format, "Zf") == 0 || std::strcmp(format, "Zd") == 0) return complex(bytes);
  if (std::strlen(format) != 1) return std::nullopt;
  if (*format == '?') return Type::boolean;
  if (std::strchr("bhilqn", *format) != nullptr) return integer(bytes, true);
  if (std::strchr("BHILQNc", *format) != nullptr) return integer(bytes, false);
  if (std::strchr("efd", *format) != nullptr) return floating(bytes);
  return std::nullopt;
}

std::optional<Type> type_of(nb::dlpack::dtype dtype) {
  if (dtype.lanes != 1 || dtype.bits % 8 != 0) return std::nullopt;
  const std::size_t bytes = dtype.bits / 8;
  using Code = nb::dlpack::dtype_code;
  switch (static_cast<Code>(dtype.code)) {
    case Code::Int:
      return integer(bytes, true);
    case Code::UInt:
      return integer(bytes, false);
    case Code::Bool:
      return bytes == 1 ? std::optional(Type::boolean) : std::nullopt;
    case Code::Complex:
      return complex(bytes);
    case Code::Float:
      return floating(bytes);
    case Code::Bfloat:
      return bytes == 2 ? std::optional(Type::bf16) : std::nullopt;
    default:
      return std::nullopt;
  }
}

constexpr const char* known_types =
    "tutti has bool, integers of 8 to 64 bits, floats of 16, 32 and 64 bits and complex numbers of "
    "two of 32 or 64 bits; pass other types as bytes, such as array.view('u1')";

}  // namespace

Buffer::Buffer(nb::handle object, bool writable) {
  if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object)) {
    take(object, writable);
    return;
  }
  const nb::list parts(nb::borrow(object));
  if (parts.size() < 1 || parts.size() > 2) {
    refuse("a buffer with a count is [buffer, count], not a list of " +
           std::to_string(parts.size()));
  }
  take(parts[0], writable);
  if (parts.size() == 2) {
    std::size_t count = 0;
    if (!nb::try_cast(nb::object(parts[1]), count)) {
      refuse("the count of [buffer, count] must be a non-negative integer");
    }
    if (count > count_) {
      throw nb::value_error(("count " + std::to_string(count) + " is more than the buffer has, " +
                             std::to_string(count_) + " elements")
                                .c_str());
    }
    count_ = count;
  }
}

Buffer::Buffer(Buffer&& other) noexcept {
  *this = std::move(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(count_, other.count_);
  std::swap(type_, other.type_);
  std::swap(view_, other.view_);
  std::swap(has_view_, other.has_view_);
  std::swap(owner_, other.owner_);
  return *this;
}

Buffer::~Buffer() {
  if (has_view_) PyBuffer_Release(&view_);
}

void Buffer::take(nb::handle object, bool writable) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return take_dlpack(object, writable);
  const int flags = PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) nb::raise_python_error();
  has_view_ = true;
  const auto bytes = static_cast<std::size_t>(view_.itemsize);
  const auto type = type_of(view_.format, bytes);
  if (!type) {
    refuse(std::string("elements of format '") + view_.format + "' (" + std::to_string(bytes) +
           " bytes) are of no type that tutti has: " + known_types);
  }
  type_ = *type;
  count_ = bytes == 0 ? 0 : static_cast<std::size_t>(view_.len) / bytes;
  data_ = view_.buf;
}

void Buffer::take_dlpack(nb::handle object, bool writable) {
  nb::ndarray<> array;
  if (!nb::try_cast(object, array)) {
    refuse(
        std::string(nb::type_name(object.type()).c_str()) +
        " is no buffer: pass an object with the buffer protocol or DLPack, such as a numpy array");
  }
  if (array.device_type() != nb::device::cpu::value) {
    refuse("the buffer is not in host memory: copy it there first");
  }
  std::int64_t expected = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != expected) {
      throw nb::buffer_error("the buffer is not C-contiguous: pass a contiguous copy");
    }
    expected *= static_cast<std::int64_t>(array.shape(axis));
  }
  const auto type = type_of(array.dtype());
  if (!type)
    refuse(std::string("elements of this DLPack type are of no type that tutti has: ") +
           known_types);
  static_cast<void>(writable);  // DLPack has read-only memory since 1.1 only
  type_ = *type;
  count_ = array.size();
  data_ = array.data();
  owner_ = nb::cast(array, nb::rv_policy::reference);
}

}  // namespace tutti::python
