#include "pointer_check.hpp"

#include <fmt/format.h>

#include "tutti/error.hpp"

namespace tutti::device {

void PointerCheck::ask(const void* buffer) const {
  unsigned memory = memory_unknown;
  unsigned managed = 0;
  int ordinal = context_.index();
  std::array<int, 3> attributes{attribute_memory_type, attribute_is_managed,
                                attribute_device_ordinal};
  std::array<void*, 3> values{&memory, &managed, &ordinal};
  const auto result = context_.cuda().pointer_attributes(
      attributes.size(), attributes.data(), values.data(), reinterpret_cast<DeviceAddress>(buffer));
  if (result != cuda_success) return;  // unknown to the driver: NCCL will report it
  if (memory == memory_unknown) {
    throw Error(ErrorCode::usage,
                fmt::format("the buffer at {} is plain host memory: a device_span is for memory of "
                            "device {}; pass a std::span to use host memory",
                            buffer, context_.index()));
  }
  if (memory == memory_device && managed == 0 && ordinal != context_.index()) {
    throw Error(ErrorCode::usage,
                fmt::format("the buffer at {} is memory of device {}, but this rank uses device "
                            "{}: allocate it there (cudaSetDevice({}) first)",
                            buffer, ordinal, context_.index(), context_.index()));
  }
}

}  // namespace tutti::device
