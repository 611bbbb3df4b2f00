#pragma once

#include <cstdint>
#include <string_view>

#include "tutti/export.hpp"

namespace tutti {

/// What a call does, or an internal step. The values travel between ranks: never renumber.
enum class Operation : std::uint8_t {
  none,              ///< no operation
  barrier,           ///< Communicator::barrier()
  broadcast,         ///< Operations::broadcast()
  fan_out,           ///< Operations::fan_out()
  all_reduce,        ///< Operations::all_reduce()
  send,              ///< Operations::send()
  recv,              ///< Operations::recv()
  send_recv,         ///< Operations::send_recv()
  finalize,          ///< Communicator::finalize(); not for run()
  reduce,            ///< Operations::reduce()
  all_gather,        ///< Operations::all_gather()
  reduce_scatter,    ///< Operations::reduce_scatter()
  gather,            ///< Operations::gather()
  scatter,           ///< Operations::scatter()
  all_to_all,        ///< Operations::all_to_all()
  all_gather_v,      ///< OperationsV::all_gather_v()
  reduce_scatter_v,  ///< OperationsV::reduce_scatter_v()
  gather_v,          ///< OperationsV::gather_v()
  scatter_v,         ///< OperationsV::scatter_v()
  all_to_all_v,      ///< OperationsV::all_to_all_v()
  split,             ///< Communicator::split(); not for run()
  scan,              ///< Operations::scan()
  exclusive_scan,    ///< Operations::exclusive_scan()
};
/// How many operations there are.
inline constexpr int operation_count = 23;

/// "all_reduce"
[[nodiscard]] TUTTI_EXPORT std::string_view name(Operation operation) noexcept;

}  // namespace tutti
