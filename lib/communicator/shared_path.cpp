#include "communicator/shared_path.hpp"

#include "communicator/arguments.hpp"

namespace tutti {
namespace {

std::vector<int> local_ranks_of(const rendezvous::Peers& peers, const control::Group& group) {
  std::vector<int> result;
  for (const int rank : group.world) result.push_back(peers.place_of(rank).local_rank);
  return result;
}

}  // namespace

SharedPath::SharedPath(const control::FailureDetector& detector,
                       std::shared_ptr<transport::SharedSegment> segment, std::size_t channel,
                       const control::Group& group, WaitPolicy waits)
    : detector_(detector),
      channel_(std::move(segment), channel, group.id, local_ranks_of(detector.peers(), group),
               group.rank),
      waits_(waits) {}

engine::SharedCall SharedPath::begin(Prepared& prepared, std::uint64_t fingerprint) {
  prepared.arguments.fingerprint = fingerprint;
  return engine::SharedCall(channel_, prepared.arguments, prepared.plan, copies_);
}

bool SharedPath::Prepared::fits(const CheckedCollective& other) const {
  return call.operation == other.operation && call.type == other.type && call.op == other.op &&
         call.root == other.root && call.count == other.count && call.send == other.send &&
         call.recv == other.recv && call.factor == other.factor;
}

SharedPath::Prepared SharedPath::prepare_anew(const CheckedCollective& call) const {
  require_reducible(call);
  const auto signature = signature_of(call, algorithm_id(name));
  engine::SharedArguments arguments{.operation = call.operation,
                                    .type = call.type,
                                    .root = call.root,
                                    .count = call.count,
                                    .input = static_cast<const std::byte*>(call.send),
                                    .output = static_cast<std::byte*>(call.recv),
                                    .element_bytes = size_of(call.type)};
  const auto& shape = shape_of(call.operation);
  if (shape.send == Extent::none) arguments.input = arguments.output;
  if (shape.reduces) {
    arguments.reduce = engine::reduce_function(call.type, call.op);
    if (call.type == Type::f16 || call.type == Type::bf16) {
      arguments.combine = engine::combine_function(call.type, call.op);
    }
    arguments.divides = call.op == Operator::average && !engine::divides_itself(call.type);
  }
  return {call, signature, arguments, engine::SharedCall::plan(channel_, arguments)};
}

bool SharedPath::run(engine::SharedCall& call) const {
  if (!call.may_run()) return false;
  const auto stages = waits_.own_call();
  Wait wait;
  while (true) {
    const auto progress = call.advance();
    if (progress == engine::SharedCall::Progress::done) {
      // After a failure another rank may already have reused the exported memory that was read.
      return !(call.has_read_exported() && detector_.job_failed());
    }
    if (progress == engine::SharedCall::Progress::moved) {
      wait.reset();
      continue;
    }
    if (call.mismatched_member() >= 0 || detector_.job_failed()) return false;
    if (!wait.may_poll(stages)) return false;
  }
}

}  // namespace tutti
