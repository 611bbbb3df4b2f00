#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/checked_collective.hpp"
#include "device/calls.hpp"

namespace tutti::preload {

using device::CudaStream;
using device::NcclComm;
using device::NcclResult;
using device::NcclUniqueId;

// ncclResult_t, as far as NcclCalls has no name for it.
inline constexpr NcclResult nccl_unhandled_cuda_error = 1;
inline constexpr NcclResult nccl_invalid_usage = 5;
inline constexpr NcclResult nccl_remote_error = 6;

/// NCCL's calls that queue work on a stream.
enum class CallKind : std::uint8_t {
  all_reduce,
  broadcast,  ///< ncclBcast, too
  all_gather,
  reduce_scatter,
  reduce,
  send,
  recv,
  all_to_all,
  gather,
  scatter,
};
inline constexpr std::size_t call_kinds = 10;

/// "ncclAllReduce"
[[nodiscard]] const char* name(CallKind kind);

/// One such call, as the program makes it: types and operators are NCCL's numbers.
struct NcclCall {
  CallKind kind = CallKind::all_reduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int root = -1;  ///< or the peer of a send or recv
  NcclComm comm = nullptr;
  CudaStream stream = nullptr;
};

/// "ncclAllReduce of 4 f32"
[[nodiscard]] std::string describe(const NcclCall& call);

/// Why a call is handed on to NCCL.
enum class Obstacle : std::uint8_t {
  no_path,     ///< the communicator has no direct path
  operation,   ///< the direct path has no such operation
  arguments,   ///< nothing to move, or an argument that NCCL refuses
  arithmetic,  ///< no kernel for the type and operator
  size,        ///< NCCL is faster
  group,       ///< other calls are in the same group
};
inline constexpr std::size_t obstacles = 6;
[[nodiscard]] const char* text(Obstacle obstacle);

/// tutti's description of a call of a rank of `size`. Empty if tutti has no such call. Whether it
/// is empty, and all of it but the buffers, depends only on what NCCL wants to be the same on all
/// ranks.
[[nodiscard]] std::optional<CheckedCollective> translate(const NcclCall& call, int rank, int size);
/// Why translate() gives nothing.
[[nodiscard]] Obstacle why_not_translated(const NcclCall& call);

}  // namespace tutti::preload
