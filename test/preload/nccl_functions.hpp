#pragma once

#include <cstddef>

#include "device/calls.hpp"

// NCCL's C API, as far as the check uses it: the program is linked to libnccl.so.2, so a preload
// can stand in front of it.
extern "C" {
int ncclGetUniqueId(tutti::device::NcclUniqueId* id);
int ncclCommInitRank(void** comm, int ranks, tutti::device::NcclUniqueId id, int rank);
int ncclCommInitRankConfig(void** comm, int ranks, tutti::device::NcclUniqueId id, int rank,
                           void* config);
int ncclCommSplit(void* comm, int color, int key, void** made, void* config);
int ncclCommFinalize(void* comm);
int ncclCommDestroy(void* comm);
int ncclCommAbort(void* comm);
int ncclCommGetAsyncError(void* comm, int* error);
const char* ncclGetLastError(void* comm);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllReduce(const void* send, void* recv, std::size_t count, int type, int op, void* comm,
                  void* stream);
int ncclBroadcast(const void* send, void* recv, std::size_t count, int type, int root, void* comm,
                  void* stream);
int ncclBcast(void* buffer, std::size_t count, int type, int root, void* comm, void* stream);
int ncclAllGather(const void* send, void* recv, std::size_t count, int type, void* comm,
                  void* stream);
int ncclReduceScatter(const void* send, void* recv, std::size_t count, int type, int op, void* comm,
                      void* stream);
int ncclReduce(const void* send, void* recv, std::size_t count, int type, int op, int root,
               void* comm, void* stream);
int ncclSend(const void* send, std::size_t count, int type, int peer, void* comm, void* stream);
int ncclRecv(void* recv, std::size_t count, int type, int peer, void* comm, void* stream);
}
