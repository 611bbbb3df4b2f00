#include "communicator/shared_path.hpp"

#include <sched.h>

#include <chrono>

#include "base/pause.hpp"
#include "communicator/arguments.hpp"

namespace tutti {
namespace {

// Measured: a wake-up across cores takes 40 to 60 µs, so spinning that long is never much worse
// than sleeping at once. Where ranks share cores, the one that is waited for may need this core.
constexpr int max_spins = 2000;
// A short wait is over soonest without pauses; a longer one leaves the core's other half in peace.
constexpr int spins_without_pause = 50;

std::vector<int> local_ranks_of(const rendezvous::Peers& peers, const control::Group& group) {
  std::vector<int> result;
  for (const int rank : group.world) result.push_back(peers.place_of(rank).local_rank);
  return result;
}

}  // namespace

SharedPath::SharedPath(const control::FailureDetector& detector,
                       std::shared_ptr<transport::SharedSegment> segment, std::size_t channel,
                       const control::Group& group)
    : detector_(detector),
      channel_(std::move(segment), channel, group.id, local_ranks_of(detector.peers(), group),
               group.rank),
      spins_(detector.peers().shares_cores() ? 0 : max_spins) {}

engine::SharedCall SharedPath::begin(Prepared& prepared, std::uint64_t fingerprint) {
  prepared.problem.fingerprint = fingerprint;
  return engine::SharedCall(channel_, prepared.problem, prepared.plan, copies_);
}

bool SharedPath::Prepared::fits(const CheckedCollective& other) const {
  return call.operation == other.operation && call.type == other.type && call.op == other.op &&
         call.root == other.root && call.count == other.count && call.send == other.send &&
         call.recv == other.recv;
}

SharedPath::Prepared SharedPath::prepare_anew(const CheckedCollective& call) const {
  require_reducible(call);
  const auto signature = signature_of(call, algorithm_id(name));
  engine::SharedArguments problem{.operation = call.operation,
                                  .root = call.root,
                                  .input = static_cast<const std::byte*>(call.send),
                                  .output = static_cast<std::byte*>(call.recv),
                                  .count = call.count,
                                  .element_bytes = size_of(call.type),
                                  .type = call.type};
  const auto& shape = shape_of(call.operation);
  if (shape.send == Extent::none) problem.input = problem.output;
  if (shape.reduces) {
    problem.reduce = engine::reduce_function(call.type, call.op);
    if (call.type == Type::f16 || call.type == Type::bf16) {
      problem.combine = engine::combine_function(call.type, call.op);
    }
    problem.divides = call.op == Operator::average && !engine::divides_itself(call.type);
  }
  return {call, signature, problem, engine::SharedCall::plan(channel_, problem)};
}

bool SharedPath::run(engine::SharedCall& call) const {
  if (!call.may_run()) return false;
  using Clock = std::chrono::steady_clock;
  int idle = 0;
  Clock::time_point yielding_since;
  while (true) {
    const auto progress = call.advance();
    if (progress == engine::SharedCall::Progress::done) {
      // After a failure another rank may already have reused the exported memory that was read.
      return !(call.has_read_exported() && detector_.job_failed());
    }
    if (progress == engine::SharedCall::Progress::moved) {
      idle = 0;
      continue;
    }
    if (call.mismatched_member() >= 0 || detector_.job_failed()) return false;
    if (idle < spins_) {
      if (idle >= spins_without_pause) pause_briefly();
    } else {
      // First of all: even a look at the clock delays the rank that needs this core.
      if (idle > spins_) {
        const auto now = Clock::now();
        if (idle == spins_ + 1) yielding_since = now;
        // A yield may take long: where others compute, sleeping is as good.
        if (now - yielding_since > max_yield_time) return false;
      }
      ::sched_yield();
    }
    ++idle;
  }
}

}  // namespace tutti
