#pragma once

#include "nccl_call.hpp"

namespace tutti::preload {

/// A flag of ncclCommShrink: the parent's work is aborted.
inline constexpr int shrink_aborts = 1;

/// NCCL's own functions behind those that this library exports. A function that the loaded NCCL
/// does not have is null.
struct RealNccl {
  NcclResult (*get_version)(int*) = nullptr;
  NcclResult (*init_rank)(NcclComm*, int, NcclUniqueId, int) = nullptr;
  NcclResult (*init_rank_config)(NcclComm*, int, NcclUniqueId, int, void*) = nullptr;
  NcclResult (*split)(NcclComm, int, int, NcclComm*, void*) = nullptr;
  NcclResult (*shrink)(NcclComm, int*, int, NcclComm*, void*, int) = nullptr;
  NcclResult (*destroy)(NcclComm) = nullptr;
  NcclResult (*abort)(NcclComm) = nullptr;
  NcclResult (*revoke)(NcclComm, int) = nullptr;
  NcclResult (*get_async_error)(NcclComm, NcclResult*) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;
  NcclResult (*count)(NcclComm, int*) = nullptr;
  NcclResult (*user_rank)(NcclComm, int*) = nullptr;
  NcclResult (*cu_device)(NcclComm, int*) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*group_simulate_end)(void*) = nullptr;
  NcclResult (*all_reduce)(const void*, void*, std::size_t, int, int, NcclComm,
                           CudaStream) = nullptr;
  NcclResult (*broadcast)(const void*, void*, std::size_t, int, int, NcclComm,
                          CudaStream) = nullptr;
  NcclResult (*all_gather)(const void*, void*, std::size_t, int, NcclComm, CudaStream) = nullptr;
  NcclResult (*reduce_scatter)(const void*, void*, std::size_t, int, int, NcclComm,
                               CudaStream) = nullptr;
  NcclResult (*reduce)(const void*, void*, std::size_t, int, int, int, NcclComm,
                       CudaStream) = nullptr;
  NcclResult (*send)(const void*, std::size_t, int, int, NcclComm, CudaStream) = nullptr;
  NcclResult (*recv)(void*, std::size_t, int, int, NcclComm, CudaStream) = nullptr;
  NcclResult (*all_to_all)(const void*, void*, std::size_t, int, NcclComm, CudaStream) = nullptr;
  NcclResult (*gather)(const void*, void*, std::size_t, int, int, NcclComm, CudaStream) = nullptr;
  NcclResult (*scatter)(const void*, void*, std::size_t, int, int, NcclComm, CudaStream) = nullptr;
};

/// Looked up at the first call, when the program has loaded NCCL.
[[nodiscard]] const RealNccl& real_nccl();

/// True while NCCL itself is being called by this thread: what NCCL then calls by its public names
/// is a part of that call.
[[nodiscard]] bool is_inside_nccl() noexcept;

/// Calls NCCL's function; ncclInvalidUsage if this NCCL has no such function.
template <class... Parameters, class... Arguments>
NcclResult hand_on(NcclResult (*function)(Parameters...), Arguments... arguments);
/// The same, by kind.
[[nodiscard]] NcclResult hand_on(const NcclCall& call);

/// Marks a thread as inside NCCL.
class InsideNccl {
 public:
  InsideNccl() noexcept;
  InsideNccl(const InsideNccl&) = delete;
  InsideNccl& operator=(const InsideNccl&) = delete;
  ~InsideNccl();
};

template <class... Parameters, class... Arguments>
NcclResult hand_on(NcclResult (*function)(Parameters...), Arguments... arguments) {
  if (function == nullptr) return nccl_invalid_usage;
  const InsideNccl inside;
  return function(arguments...);
}

}  // namespace tutti::preload
