// The functions of NCCL that this library puts in front of NCCL's own. Parameters as in nccl.h,
// whose enumerations are ints, and whose handles and configurations are pointers here.
#include <optional>
#include <span>
#include <utility>

#include "communicators.hpp"
#include "group.hpp"
#include "real_nccl.hpp"

namespace tutti::preload {
namespace {

Identity identity_of(const NcclUniqueId& id) {
  return Identity::of(std::as_bytes(std::span(id.bytes)));
}

NcclResult run(const NcclCall& call) {
  if (is_inside_nccl()) return hand_on(call);
  const auto communicator = Communicators::instance().find(call.comm);
  auto& group = Group::current();
  if (group.is_open()) return group.add(communicator, call);
  if (!communicator) return hand_on(call);
  if (communicator->failure() != nullptr) return nccl_remote_error;
  const auto obstacle = communicator->obstacle(call);
  if (!obstacle) return communicator->serve(call);
  communicator->before_handed_on(call, *obstacle);
  const auto result = hand_on(call);
  communicator->after_handed_on(call.stream, result);
  return result;
}

/// Inside a group NCCL makes the communicator at the group's end, and this library does not know
/// it.
bool is_set_up_at_once() {
  return !is_inside_nccl() && !Group::current().is_open();
}

/// The program gives the communicator up. Returns it; null if there is none, or NCCL itself calls.
std::shared_ptr<NcclCommunicator> take_down(NcclComm comm) {
  if (is_inside_nccl()) return nullptr;
  auto& all = Communicators::instance();
  auto communicator = all.take(comm);
  if (communicator) {
    communicator->leave();
    all.report(*communicator);
  }
  return communicator;
}

}  // namespace
}  // namespace tutti::preload

#define TUTTI_NCCL __attribute__((visibility("default")))

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {

using namespace tutti::preload;  // NOLINT(google-build-using-namespace): nothing else is here

TUTTI_NCCL int ncclCommInitRank(NcclComm* comm, int ranks, NcclUniqueId id, int rank) {
  const auto& nccl = real_nccl();
  if (!is_set_up_at_once()) return hand_on(nccl.init_rank, comm, ranks, id, rank);
  auto& all = Communicators::instance();
  auto set_up = all.begin(identity_of(id));
  const auto result = hand_on(nccl.init_rank, comm, ranks, id, rank);
  all.finish(std::move(set_up), result, comm);
  return result;
}

TUTTI_NCCL int ncclCommInitRankConfig(NcclComm* comm, int ranks, NcclUniqueId id, int rank,
                                      void* config) {
  const auto& nccl = real_nccl();
  if (!is_set_up_at_once()) return hand_on(nccl.init_rank_config, comm, ranks, id, rank, config);
  auto& all = Communicators::instance();
  auto set_up = all.begin(identity_of(id));
  const auto result = hand_on(nccl.init_rank_config, comm, ranks, id, rank, config);
  all.finish(std::move(set_up), result, comm);
  return result;
}

TUTTI_NCCL int ncclCommSplit(NcclComm comm, int color, int key, NcclComm* made, void* config) {
  const auto& nccl = real_nccl();
  if (is_inside_nccl()) return hand_on(nccl.split, comm, color, key, made, config);
  auto& all = Communicators::instance();
  const auto parent = all.find(comm);
  // All ranks count all splits.
  const auto child = parent ? parent->next_child(color) : std::nullopt;
  if (!is_set_up_at_once()) return hand_on(nccl.split, comm, color, key, made, config);
  auto set_up = all.begin(child);
  const auto result = hand_on(nccl.split, comm, color, key, made, config);
  all.finish(std::move(set_up), result, made);
  return result;
}

TUTTI_NCCL int ncclCommShrink(NcclComm comm, int* excluded, int count, NcclComm* made, void* config,
                              int flags) {
  if (!is_inside_nccl() && (flags & shrink_aborts) != 0) {
    const auto parent = Communicators::instance().find(comm);
    if (parent) parent->abort();
  }
  return hand_on(real_nccl().shrink, comm, excluded, count, made, config, flags);
}

TUTTI_NCCL int ncclCommDestroy(NcclComm comm) {
  const auto communicator = take_down(comm);
  if (communicator == nullptr || !communicator->has_failed()) {
    return hand_on(real_nccl().destroy, comm);
  }
  // A call has ended without its result, perhaps the program's last. NCCL's own wait in vain, too.
  static_cast<void>(hand_on(real_nccl().abort, comm));
  return nccl_remote_error;
}

TUTTI_NCCL int ncclCommAbort(NcclComm comm) {
  if (!is_inside_nccl()) {
    // First, since what takes it down may wait for a thread that waits for the device.
    const auto communicator = Communicators::instance().find(comm);
    if (communicator) communicator->abort();
  }
  static_cast<void>(take_down(comm));
  return hand_on(real_nccl().abort, comm);
}

TUTTI_NCCL int ncclCommRevoke(NcclComm comm, int flags) {
  if (!is_inside_nccl()) {
    const auto communicator = Communicators::instance().find(comm);
    if (communicator) communicator->abort();
  }
  return hand_on(real_nccl().revoke, comm, flags);
}

TUTTI_NCCL int ncclCommGetAsyncError(NcclComm comm, int* error) {
  const auto result = hand_on(real_nccl().get_async_error, comm, error);
  if (is_inside_nccl() || result != tutti::device::nccl_success || error == nullptr) return result;
  auto& all = Communicators::instance();
  *error = all.finish_pending(comm, *error);
  if (*error != tutti::device::nccl_success) return result;
  const auto communicator = all.find(comm);
  if (communicator) {
    communicator->after_progress();
    if (communicator->failure() != nullptr) *error = nccl_remote_error;
  }
  return result;
}

TUTTI_NCCL const char* ncclGetLastError(NcclComm comm) {
  auto& all = Communicators::instance();
  const auto communicator = comm == nullptr ? nullptr : all.find(comm);
  const auto* const failure = communicator ? communicator->failure() : all.failure();
  if (failure != nullptr) return failure->c_str();
  const auto& nccl = real_nccl();
  return nccl.last_error == nullptr ? "" : nccl.last_error(comm);
}

TUTTI_NCCL int ncclGroupStart() {
  if (!is_inside_nccl()) Group::current().start();
  return hand_on(real_nccl().group_start);
}

TUTTI_NCCL int ncclGroupEnd() {
  if (is_inside_nccl()) return hand_on(real_nccl().group_end);
  return Group::current().end();
}

TUTTI_NCCL int ncclGroupSimulateEnd(void* estimate) {
  if (is_inside_nccl()) return hand_on(real_nccl().group_simulate_end, estimate);
  return Group::current().simulate_end(estimate);
}

TUTTI_NCCL int ncclAllReduce(const void* send, void* recv, std::size_t count, int type, int op,
                             NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::all_reduce,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .op = op,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclBroadcast(const void* send, void* recv, std::size_t count, int type, int root,
                             NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::broadcast,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .root = root,
              .comm = comm,
              .stream = stream});
}

/// In NCCL, too, it is ncclBroadcast with one buffer.
TUTTI_NCCL int ncclBcast(void* buffer, std::size_t count, int type, int root, NcclComm comm,
                         CudaStream stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

TUTTI_NCCL int ncclAllGather(const void* send, void* recv, std::size_t count, int type,
                             NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::all_gather,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclReduceScatter(const void* send, void* recv, std::size_t count, int type, int op,
                                 NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::reduce_scatter,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .op = op,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclReduce(const void* send, void* recv, std::size_t count, int type, int op,
                          int root, NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::reduce,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .op = op,
              .root = root,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclSend(const void* send, std::size_t count, int type, int peer, NcclComm comm,
                        CudaStream stream) {
  return run({.kind = CallKind::send,
              .send = send,
              .count = count,
              .type = type,
              .root = peer,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclRecv(void* recv, std::size_t count, int type, int peer, NcclComm comm,
                        CudaStream stream) {
  return run({.kind = CallKind::recv,
              .recv = recv,
              .count = count,
              .type = type,
              .root = peer,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclAlltoAll(const void* send, void* recv, std::size_t count, int type,
                            NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::all_to_all,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclGather(const void* send, void* recv, std::size_t count, int type, int root,
                          NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::gather,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .root = root,
              .comm = comm,
              .stream = stream});
}

TUTTI_NCCL int ncclScatter(const void* send, void* recv, std::size_t count, int type, int root,
                           NcclComm comm, CudaStream stream) {
  return run({.kind = CallKind::scatter,
              .send = send,
              .recv = recv,
              .count = count,
              .type = type,
              .root = root,
              .comm = comm,
              .stream = stream});
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
