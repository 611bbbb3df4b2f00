#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// The arguments on which all ranks of a call must agree, for comparison and messages.
struct CallSignature {
  Operation operation = Operation::none;
  Type type = Type::u8;
  Operator op = Operator::sum;
  std::int32_t root = -1;  ///< or the peer of a send or recv
  std::uint64_t count = 0;
  std::uint8_t algorithm = 0;  ///< algorithm_id(); 0: none

  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// Ids of algorithm names are part of the wire format: never renumber. 0 for an unknown name.
inline constexpr int algorithm_id_count = 18;
[[nodiscard]] std::uint8_t algorithm_id(std::string_view name) noexcept;
[[nodiscard]] std::string_view algorithm_name(std::uint8_t id) noexcept;

/// "all_reduce of 409600 f32, sum", "broadcast of 4 u8 from rank 0"; a negative rank is omitted.
[[nodiscard]] std::string describe(const CallSignature& call);

/// The rolling fingerprint of all calls up to and including `call`.
[[nodiscard]] std::uint64_t fingerprint(std::uint64_t before, const CallSignature& call) noexcept;

}  // namespace tutti
