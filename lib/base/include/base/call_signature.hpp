#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// What ranks of one call must agree on, and what a person needs to recognise a call.
struct CallSignature {
  Operation operation = Operation::none;
  Type type = Type::u8;
  Operator op = Operator::sum;
  std::int32_t root = -1;  ///< or the peer, of a send or recv
  std::uint64_t count = 0;
  std::uint8_t algorithm = 0;  ///< algorithm_id(); 0: none

  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// Ids of algorithm names travel between ranks: never renumber. 0 for a name that is not known.
inline constexpr int algorithm_id_count = 16;
[[nodiscard]] std::uint8_t algorithm_id(std::string_view name) noexcept;
[[nodiscard]] std::string_view algorithm_name(std::uint8_t id) noexcept;

/// "all_reduce of 409600 f32, sum", "broadcast of 4 u8 from rank 0"; without a rank where it is
/// negative.
[[nodiscard]] std::string describe(const CallSignature& call);

/// The rolling fingerprint of all calls up to and including `call`.
[[nodiscard]] std::uint64_t fingerprint(std::uint64_t before, const CallSignature& call) noexcept;

}  // namespace tutti
