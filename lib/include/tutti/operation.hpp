#pragma once

#include <cstdint>
#include <string_view>

#include "tutti/export.hpp"

namespace tutti {

/// The values travel between ranks: never renumber.
enum class Operation : std::uint8_t {
  none,
  barrier,
  broadcast,
  fan_out,
  all_reduce,
  send,
  recv,
  send_recv,
  finalize,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  all_gather_v,
  reduce_scatter_v,
  gather_v,
  scatter_v,
  all_to_all_v,
  split,
};
inline constexpr int operation_count = 21;

/// "all_reduce"
[[nodiscard]] TUTTI_EXPORT std::string_view name(Operation operation) noexcept;

}  // namespace tutti
