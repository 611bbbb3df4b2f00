#include "real_nccl.hpp"

#include <dlfcn.h>

namespace tutti::preload {
namespace {

/// NCCL may be in nobody's scope but that of the library which links it, as in Python.
void* loaded_nccl() {
  static void* const handle = [] {
    void* const loaded = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    return loaded != nullptr ? loaded : ::dlopen("libnccl.so.2", RTLD_LAZY);
  }();
  return handle;
}

template <class Function>
void find(Function& function, const char* symbol) {
  void* address = ::dlsym(RTLD_NEXT, symbol);
  if (address == nullptr && loaded_nccl() != nullptr) address = ::dlsym(loaded_nccl(), symbol);
  function = reinterpret_cast<Function>(address);
}

RealNccl find_all() {
  RealNccl nccl;
  find(nccl.get_version, "ncclGetVersion");
  find(nccl.init_rank, "ncclCommInitRank");
  find(nccl.init_rank_config, "ncclCommInitRankConfig");
  find(nccl.split, "ncclCommSplit");
  find(nccl.shrink, "ncclCommShrink");
  find(nccl.destroy, "ncclCommDestroy");
  find(nccl.abort, "ncclCommAbort");
  find(nccl.revoke, "ncclCommRevoke");
  find(nccl.get_async_error, "ncclCommGetAsyncError");
  find(nccl.last_error, "ncclGetLastError");
  find(nccl.count, "ncclCommCount");
  find(nccl.user_rank, "ncclCommUserRank");
  find(nccl.cu_device, "ncclCommCuDevice");
  find(nccl.group_start, "ncclGroupStart");
  find(nccl.group_end, "ncclGroupEnd");
  find(nccl.group_simulate_end, "ncclGroupSimulateEnd");
  find(nccl.all_reduce, "ncclAllReduce");
  find(nccl.broadcast, "ncclBroadcast");
  find(nccl.all_gather, "ncclAllGather");
  find(nccl.reduce_scatter, "ncclReduceScatter");
  find(nccl.reduce, "ncclReduce");
  find(nccl.send, "ncclSend");
  find(nccl.recv, "ncclRecv");
  find(nccl.all_to_all, "ncclAlltoAll");
  find(nccl.gather, "ncclGather");
  find(nccl.scatter, "ncclScatter");
  return nccl;
}

thread_local int calls_into_nccl = 0;

}  // namespace

const RealNccl& real_nccl() {
  static const RealNccl nccl = find_all();
  return nccl;
}

bool is_inside_nccl() noexcept {
  return calls_into_nccl > 0;
}
InsideNccl::InsideNccl() noexcept {
  ++calls_into_nccl;
}
InsideNccl::~InsideNccl() {
  --calls_into_nccl;
}

NcclResult hand_on(const NcclCall& call) {
  const auto& nccl = real_nccl();
  const auto& [kind, send, recv, count, type, op, root, comm, stream] = call;
  switch (kind) {
    case CallKind::all_reduce:
      return hand_on(nccl.all_reduce, send, recv, count, type, op, comm, stream);
    case CallKind::broadcast:
      return hand_on(nccl.broadcast, send, recv, count, type, root, comm, stream);
    case CallKind::all_gather:
      return hand_on(nccl.all_gather, send, recv, count, type, comm, stream);
    case CallKind::reduce_scatter:
      return hand_on(nccl.reduce_scatter, send, recv, count, type, op, comm, stream);
    case CallKind::reduce:
      return hand_on(nccl.reduce, send, recv, count, type, op, root, comm, stream);
    case CallKind::send:
      return hand_on(nccl.send, send, count, type, root, comm, stream);
    case CallKind::recv:
      return hand_on(nccl.recv, recv, count, type, root, comm, stream);
    case CallKind::all_to_all:
      return hand_on(nccl.all_to_all, send, recv, count, type, comm, stream);
    case CallKind::gather:
      return hand_on(nccl.gather, send, recv, count, type, root, comm, stream);
    case CallKind::scatter:
      return hand_on(nccl.scatter, send, recv, count, type, root, comm, stream);
  }
  return nccl_invalid_usage;
}

}  // namespace tutti::preload
