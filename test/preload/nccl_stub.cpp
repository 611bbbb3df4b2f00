// A libnccl.so.2 to link with where there may be none: its functions fail. LD_LIBRARY_PATH selects
// another one when the program runs.
extern "C" {
#define TUTTI_STUB(name) \
  int name() {           \
    return 3;            \
  }
TUTTI_STUB(ncclGetUniqueId)
TUTTI_STUB(ncclCommInitRank)
TUTTI_STUB(ncclCommInitRankConfig)
TUTTI_STUB(ncclCommSplit)
TUTTI_STUB(ncclCommFinalize)
TUTTI_STUB(ncclCommDestroy)
TUTTI_STUB(ncclCommAbort)
TUTTI_STUB(ncclCommGetAsyncError)
TUTTI_STUB(ncclGetLastError)
TUTTI_STUB(ncclGroupStart)
TUTTI_STUB(ncclGroupEnd)
TUTTI_STUB(ncclAllReduce)
TUTTI_STUB(ncclBroadcast)
TUTTI_STUB(ncclBcast)
TUTTI_STUB(ncclAllGather)
TUTTI_STUB(ncclReduceScatter)
TUTTI_STUB(ncclReduce)
TUTTI_STUB(ncclSend)
TUTTI_STUB(ncclRecv)
}
