#include "image.hpp"

#include <fmt/format.h>

#include "base/shape.hpp"

#ifdef TUTTI_KERNELS
#include "kernels_image.hpp"

asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden tutti_direct_image\n"
    ".global tutti_direct_image\n"
    "tutti_direct_image: .incbin \"" TUTTI_KERNELS_FILE
    "\"\n"
    ".popsection\n");
extern "C" const unsigned char tutti_direct_image;
#endif

namespace tutti::device::direct {

const void* kernel_image() noexcept {
#ifdef TUTTI_KERNELS
  return &tutti_direct_image;
#else
  return nullptr;
#endif
}

std::optional<std::string> kernel_name(Protocol protocol, Operation operation, Type type,
                                       Operator op) {
  const bool by_packets = protocol == Protocol::packets;
  const auto* const suffix = by_packets ? "packets" : "chunks";
  if (operation == Operation::barrier) {
    return by_packets ? std::optional<std::string>("tutti_direct_meet_packets") : std::nullopt;
  }
  if (!shape_of(operation).reduces) return fmt::format("tutti_direct_move_{}", suffix);
  const bool is_16_bit_float = type == Type::f16 || type == Type::bf16;
  const bool is_float = is_16_bit_float || type == Type::f32 || type == Type::f64;
  const bool served = op == Operator::average
                          ? is_16_bit_float
                          : (by_packets ? type <= Type::f64 && op <= Operator::max
                                        : is_float && op == Operator::sum);
  if (!served) return std::nullopt;
  return fmt::format("tutti_direct_{}_{}_{}", name(type), name(op), suffix);
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names{"tutti_direct_meet_packets"};
  for (const auto protocol : {Protocol::packets, Protocol::chunks}) {
    names.push_back(*kernel_name(protocol, Operation::broadcast, Type::u8, Operator::sum));
    for (int type = 0; type < type_count; ++type) {
      for (int op = 0; op < operator_count; ++op) {
        const auto kernel = kernel_name(protocol, Operation::all_reduce, static_cast<Type>(type),
                                        static_cast<Operator>(op));
        if (kernel) names.push_back(*kernel);
      }
    }
  }
  return names;
}

}  // namespace tutti::device::direct
