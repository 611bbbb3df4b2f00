#include "device/device_backend.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <thread>

#include "device/inventory.hpp"
#include "device/nccl_numbers.hpp"
#include "engine/lateness.hpp"

namespace tutti::device {
namespace {

constexpr std::chrono::milliseconds late_verdict_limit{500};
// As long as a kernel launch and a short transfer take; then the thread sleeps between looks.
constexpr std::chrono::microseconds spin_time{200};
constexpr std::chrono::microseconds look_again{50};

}  // namespace

DeviceBackend::DeviceBackend(control::Plane& plane, std::unique_ptr<Session> session)
    : plane_(plane), session_(std::move(session)) {}

void DeviceBackend::require_usable(const CallSettings& settings) const {
  if (plane_.failed()) throw plane_.verdict_error();
  if (settings.tag != 0 || !settings.algorithm.empty()) {
    throw Error(
        ErrorCode::usage,
        "on device memory calls take no tag and no algorithm: NCCL matches by order and chooses "
        "itself");
  }
}

void DeviceBackend::begin_collective(const CallSignature& call, const CallSettings& settings) {
  require_usable(settings);
  plane_.history().begin_collective(call);
  plane_.history().end();  // queued; what is waited for shows in synchronize()
}

template <class Action>
void DeviceBackend::in_group(const char* doing, Action action) {
  const auto& nccl = session_->nccl();
  session_->check(nccl.group_start(), doing);
  const NcclResult result = action();
  // The group must be closed in any case, or every later call would wait for its end.
  const NcclResult end = nccl.group_end();
  session_->check(result, doing);
  session_->check(end, doing);
}

void DeviceBackend::fan_out(void* buffer, std::size_t count, Type type, int root,
                            const CallSettings& settings) {
  begin_collective({Operation::fan_out, type, Operator::sum, root, count}, settings);
  const auto& peers = plane_.peers();
  const Session::Current current(*session_);
  // All sends in one group run at once; one after another each would wait for the one before.
  in_group("fan_out", [&] {
    const auto& nccl = session_->nccl();
    if (peers.rank() != root) {
      return nccl.recv(buffer, count, nccl_type(type), root, session_->comm(), settings.stream);
    }
    for (int peer = 0; peer < peers.size(); ++peer) {
      if (peer == root) continue;
      const auto result =
          nccl.send(buffer, count, nccl_type(type), peer, session_->comm(), settings.stream);
      if (result != nccl_success) return result;
    }
    return nccl_success;
  });
}

void DeviceBackend::broadcast(void* buffer, std::size_t count, Type type, int root,
                              const CallSettings& settings) {
  begin_collective({Operation::broadcast, type, Operator::sum, root, count}, settings);
  const Session::Current current(*session_);
  session_->check(session_->nccl().broadcast(buffer, buffer, count, nccl_type(type), root,
                                             session_->comm(), settings.stream),
                  "broadcast");
}

void DeviceBackend::all_reduce(const void* send, void* recv, std::size_t count, Type type,
                               Operator op, const CallSettings& settings) {
  begin_collective({Operation::all_reduce, type, op, -1, count}, settings);
  const Session::Current current(*session_);
  session_->check(session_->nccl().all_reduce(send, recv, count, nccl_type(type), nccl_operator(op),
                                              session_->comm(), settings.stream),
                  "all_reduce");
}

void DeviceBackend::send(const void* buffer, std::size_t count, Type type, int to,
                         const CallSettings& settings) {
  require_usable(settings);
  const Session::Current current(*session_);
  session_->check(
      session_->nccl().send(buffer, count, nccl_type(type), to, session_->comm(), settings.stream),
      "send");
}

void DeviceBackend::recv(void* buffer, std::size_t count, Type type, int from,
                         const CallSettings& settings) {
  require_usable(settings);
  const Session::Current current(*session_);
  session_->check(session_->nccl().recv(buffer, count, nccl_type(type), from, session_->comm(),
                                        settings.stream),
                  "recv");
}

void DeviceBackend::send_recv(const void* send, std::size_t send_count, int to, void* recv,
                              std::size_t recv_count, int from, Type type,
                              const CallSettings& settings) {
  require_usable(settings);
  const Session::Current current(*session_);
  in_group("send_recv", [&] {
    const auto& nccl = session_->nccl();
    const auto sent =
        nccl.send(send, send_count, nccl_type(type), to, session_->comm(), settings.stream);
    const auto received =
        nccl.recv(recv, recv_count, nccl_type(type), from, session_->comm(), settings.stream);
    return sent != nccl_success ? sent : received;
  });
}

void DeviceBackend::barrier(const CallSettings& settings) {
  begin_collective({.operation = Operation::barrier}, settings);
  const Session::Current current(*session_);
  void* const token = session_->token();
  session_->check(
      session_->nccl().all_reduce(token, token, 1, nccl_type(Type::u8),
                                  nccl_operator(Operator::max), session_->comm(), settings.stream),
      "barrier");
}

void DeviceBackend::finalize(const CallSettings& settings) {
  synchronize(settings);
}

void DeviceBackend::synchronize(const CallSettings& settings) {
  require_usable(settings);
  const auto latest = plane_.history().activity().call;
  plane_.history().begin_other(latest);
  try {
    wait_for_stream(latest, settings);
  } catch (...) {
    // NCCL's kernels may still wait for a rank that is gone, and whatever the program frees next
    // would wait for them.
    session_->abort();
    plane_.history().end();
    throw;
  }
  plane_.history().end();
}

void DeviceBackend::wait_for_stream(const CallSignature& latest, const CallSettings& settings) {
  const auto& cuda = session_->cuda();
  const auto deadline = Deadline::after(settings.timeout);
  const auto start = std::chrono::steady_clock::now();
  const Session::Current current(*session_);
  while (true) {
    const auto result = cuda.query_stream(settings.stream);
    if (result == cuda_success) return;
    if (result != cuda_not_ready) session_->check_cuda(result, "work on the stream");
    if (plane_.failed()) {
      throw plane_.verdict_error().in(describe(latest), plane_.history().activity().sequence);
    }
    NcclResult trouble = nccl_success;
    session_->check(session_->nccl().get_async_error(session_->comm(), &trouble),
                    "looking for errors");
    session_->check(trouble, "work on the stream");
    if (deadline.expired()) time_out(latest, settings);
    if (std::chrono::steady_clock::now() - start < spin_time) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(look_again);
    }
  }
}

void DeviceBackend::time_out(const CallSignature& latest, const CallSettings& settings) {
  const auto finding = engine::find_late(plane_, latest, settings.timeout, {});
  throw plane_.report_and_wait(finding, late_verdict_limit)
      .in(describe(latest), plane_.history().activity().sequence);
}

}  // namespace tutti::device
