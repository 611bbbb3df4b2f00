#include "base/call_signature.hpp"

#include <fmt/format.h>

#include <array>

namespace tutti {

std::string_view name(Operation operation) noexcept {
  constexpr std::array<std::string_view, operation_count> names{
      "no call",      "barrier",          "broadcast",
      "fan_out",      "all_reduce",       "send",
      "recv",         "send_recv",        "finalize",
      "reduce",       "all_gather",       "reduce_scatter",
      "gather",       "scatter",          "all_to_all",
      "all_gather_v", "reduce_scatter_v", "gather_v",
      "scatter_v",    "all_to_all_v",     "split",
      "scan",         "exclusive_scan",
  };
  const auto index = static_cast<std::size_t>(operation);
  return index < names.size() ? names[index] : "unknown operation";
}

namespace {

constexpr std::array<std::string_view, algorithm_id_count> algorithm_names{
    "none",         "direct",
    "binomial",     "chain",
    "scatter_ring", "recursive_doubling",
    "ring",         "dissemination",
    "bruck",        "recursive_halving",
    "pairwise",     "rabenseifner",
    "gathered",     "slices",
    "hierarchical", "shared",
    "leaders",      "direct-windows",
};

}  // namespace

std::uint8_t algorithm_id(std::string_view name) noexcept {
  for (std::size_t id = 1; id < algorithm_names.size(); ++id) {
    if (algorithm_names[id] == name) return static_cast<std::uint8_t>(id);
  }
  return 0;
}

std::string_view algorithm_name(std::uint8_t id) noexcept {
  return id < algorithm_names.size() ? algorithm_names[id] : "unknown";
}

std::string describe(const CallSignature& call) {
  const auto rank = [&](std::string_view before) {
    return call.root < 0 ? std::string() : fmt::format("{}{}", before, call.root);
  };
  switch (call.operation) {
    case Operation::none:
    case Operation::barrier:
    case Operation::finalize:
    case Operation::split:
      return std::string(name(call.operation));
    case Operation::all_reduce:
    case Operation::scan:
    case Operation::exclusive_scan:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      return fmt::format("{} of {} {}, {}", name(call.operation), call.count, name(call.type),
                         name(call.op));
    case Operation::reduce:
      return fmt::format("reduce of {} {}, {}{}", call.count, name(call.type), name(call.op),
                         rank(", to rank "));
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return fmt::format("{} of {} {}", name(call.operation), call.count, name(call.type));
    case Operation::gather:
    case Operation::gather_v:
    case Operation::send:
    case Operation::send_recv:
      return fmt::format("{} of {} {}{}", name(call.operation), call.count, name(call.type),
                         rank(" to rank "));
    case Operation::recv:
      if (call.root < 0) {
        return fmt::format("recv of {} {} from any rank", call.count, name(call.type));
      }
      [[fallthrough]];
    default:
      return fmt::format("{} of {} {}{}", name(call.operation), call.count, name(call.type),
                         rank(" from rank "));
  }
}

std::uint64_t fingerprint(std::uint64_t before, const CallSignature& call) noexcept {
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit affects every output
  // bit.
  const auto mix = [](std::uint64_t value) {
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
  };
  const auto kinds =
      static_cast<std::uint64_t>(call.operation) | static_cast<std::uint64_t>(call.type) << 8 |
      static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(call.algorithm) << 24 |
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
  return mix(mix(before ^ kinds) ^ call.count);
}

}  // namespace tutti
