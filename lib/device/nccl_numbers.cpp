#include "device/nccl_numbers.hpp"

#include <fmt/format.h>

#include "base/shape.hpp"

namespace tutti::device {
namespace {

/// Names of ncclResult_t 0 to 7; a later NCCL may have more.
constexpr std::array<const char*, 8> result_names{
    "success",          "unhandled CUDA error", "system error", "internal error",
    "invalid argument", "invalid usage",        "remote error", "in progress"};

}  // namespace

int nccl_type(Type type) noexcept {
  // i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2 i16 u16 bool c64 c128, as in
  // tutti/types.hpp
  constexpr std::array<int, type_count> numbers{0, 1,  2,  3, 4, 5, 6, 9, 7,
                                                8, 10, 11, 6, 6, 1, 7, 8};
  return numbers[static_cast<std::size_t>(type)];
}

int nccl_moved_type(Type type) noexcept {
  return nccl_type(is_8_bit_float(type) ? Type::u8 : type);
}

std::optional<int> nccl_operator(Type type, Operator op) noexcept {
  if (!supported(Path::device, Operation::all_reduce, type, op)) return std::nullopt;
  if (type == Type::boolean) {
    const bool all = op == Operator::product || op == Operator::min || op == Operator::bit_and ||
                     op == Operator::logical_and;
    op = all ? Operator::min : Operator::max;
  }
  switch (op) {
    case Operator::sum:
      return 0;
    case Operator::product:
      return 1;
    case Operator::max:
      return 2;
    case Operator::min:
      return 3;
    case Operator::average:
      return 4;
    default:
      return std::nullopt;
  }
}

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string nccl_error_text(const NcclCalls& nccl, NcclComm comm, NcclResult result) {
  const auto index = static_cast<std::size_t>(result);
  auto text = result >= 0 && index < result_names.size()
                  ? fmt::format("NCCL: {} ({})", result_names[index], result)
                  : fmt::format("NCCL: unknown result {}", result);
  if (comm != nullptr && nccl.last_error != nullptr) {
    const char* last = nccl.last_error(comm);
    if (last != nullptr && *last != '\0') text += fmt::format("; its last message: {}", last);
  }
  return text;
}

}  // namespace tutti::device
