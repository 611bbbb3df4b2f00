#include "communicator/host_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "algorithm/algorithms.hpp"
#include "algorithm/choice.hpp"
#include "engine/reduce.hpp"

namespace tutti {
namespace {

using algorithm::Problem;
using algorithm::Schedule;
using transport::CallContext;

// Sub-communicators will have others.
constexpr std::uint32_t world = 0;

/// Marks the end of a call for whoever asks what this rank is doing, also when it throws.
class CallScope {
 public:
  explicit CallScope(control::CallHistory& history) : history_(history) {}
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() { history_.end(); }

 private:
  control::CallHistory& history_;
};

using Names = std::span<const std::string_view>;

/// The schedule by the name that the call asks for, else by the preferred one if the operation has
/// it, else by `chosen`.
Schedule make(Schedule (*make)(std::string_view, const Problem&), Names known,
              std::string_view chosen, const Problem& problem, const CallSettings& settings) {
  std::string_view name = chosen;
  if (!settings.algorithm.empty()) {
    name = settings.algorithm;
  } else if (std::find(known.begin(), known.end(), settings.preferred) != known.end()) {
    name = settings.preferred;
  }
  try {
    return make(name, problem);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorCode::usage, error.what());
  }
}

bool sends(const CallContext& call) {
  return call.signature.operation == Operation::send;
}
bool receives(const CallContext& call) {
  return call.signature.operation == Operation::recv;
}

std::int64_t signed_bytes(std::size_t count, Type type) {
  return static_cast<std::int64_t>(count * size_of(type));
}

}  // namespace

HostBackend::HostBackend(control::Plane& plane, transport::Links& links,
                         engine::CallChecker& checker, std::size_t chunk_bytes)
    : plane_(plane),
      links_(links),
      checker_(checker),
      runner_(plane, links),
      chunk_bytes_(chunk_bytes) {
  const auto& peers = plane.peers();
  for (int rank = 0; rank < peers.size(); ++rank) {
    host_of_rank_.push_back(peers.place_of(rank).host_index);
  }
}

Problem HostBackend::problem(std::size_t count, Type type, int root) const {
  return {
      .rank = plane_.peers().rank(),
      .size = plane_.peers().size(),
      .root = root,
      .count = static_cast<std::int64_t>(count),
      .chunk = static_cast<std::int64_t>(std::max<std::size_t>(1, chunk_bytes_ / size_of(type))),
      .host = host_of_rank_};
}

void HostBackend::run_collective(CallSignature call, const Schedule& schedule,
                                 engine::Memory memory, const CallSettings& settings) {
  latest_algorithm_ = schedule.algorithm;
  call.algorithm = algorithm_id(schedule.algorithm);
  const auto past = plane_.history().begin_collective(call);
  const CallScope scope(plane_.history());
  const CallContext context{.key = {.communicator = world, .sequence = past.sequence},
                            .signature = call,
                            .fingerprint = past.before};
  const auto scratch_bytes =
      static_cast<std::size_t>(schedule.scratch_elements) * memory.element_bytes;
  if (scratch_.size() < scratch_bytes) scratch_.resize(scratch_bytes);
  memory.scratch = scratch_.data();

  engine::Execution execution(schedule, memory, context, context, links_);
  run(execution, call, settings);
  links_.finish_collective(context.key);
}

void HostBackend::run(engine::Execution& execution, const CallSignature& call,
                      const CallSettings& settings) {
  try {
    runner_.run(execution, call, Deadline::after(settings.timeout), settings.timeout);
  } catch (...) {
    // Whatever it was: the links must not touch this call's memory again.
    checker_.set_messages({});
    links_.abandon();
    throw;
  }
}

void HostBackend::require_no_verdict(const CallSignature& call) const {
  if (!plane_.failed()) return;
  throw plane_.verdict_error().in(describe(call), plane_.history().activity().sequence);
}

void HostBackend::fan_out(void* buffer, std::size_t count, Type type, int root,
                          const CallSettings& settings) {
  const auto schedule =
      make(algorithm::make_fan_out, algorithm::fan_out_algorithms(),
           algorithm::choose_fan_out(plane_.peers().size(), signed_bytes(count, type)),
           problem(count, type, root), settings);
  auto* const bytes = static_cast<std::byte*>(buffer);
  run_collective({Operation::fan_out, type, Operator::sum, root, count}, schedule,
                 {.input = bytes, .output = bytes, .element_bytes = size_of(type)}, settings);
}

void HostBackend::broadcast(void* buffer, std::size_t count, Type type, int root,
                            const CallSettings& settings) {
  const auto schedule =
      make(algorithm::make_broadcast, algorithm::broadcast_algorithms(),
           algorithm::choose_broadcast(plane_.peers().size(), signed_bytes(count, type)),
           problem(count, type, root), settings);
  auto* const bytes = static_cast<std::byte*>(buffer);
  run_collective({Operation::broadcast, type, Operator::sum, root, count}, schedule,
                 {.input = bytes, .output = bytes, .element_bytes = size_of(type)}, settings);
}

void HostBackend::all_reduce(const void* send, void* recv, std::size_t count, Type type,
                             Operator op, const CallSettings& settings) {
  const auto reduce = engine::reduce_function(type, op);
  if (reduce == nullptr) {
    throw Error(ErrorCode::usage, fmt::format("all_reduce of {} by {} is not supported on the host "
                                              "path: convert to f32",
                                              tutti::name(type), tutti::name(op)));
  }
  auto what = problem(count, type, 0);
  what.in_place = send == recv;
  const auto schedule =
      make(algorithm::make_all_reduce, algorithm::all_reduce_algorithms(),
           algorithm::choose_all_reduce(what.size, signed_bytes(count, type)), what, settings);
  auto* const output = static_cast<std::byte*>(recv);
  run_collective({Operation::all_reduce, type, op, -1, count}, schedule,
                 {.input = static_cast<const std::byte*>(send),
                  .output = output,
                  .element_bytes = size_of(type),
                  .reduce = reduce},
                 settings);
  if (op == Operator::average) engine::divide(output, count, type, what.size);
}

void HostBackend::run_barrier(const CallSignature& call, const CallSettings& settings) {
  const auto schedule =
      make(algorithm::make_barrier, algorithm::barrier_algorithms(),
           algorithm::choose_barrier(plane_.peers().size()), problem(0, Type::u8, 0), settings);
  run_collective(call, schedule, {.reduce = engine::reduce_function(Type::u8, Operator::max)},
                 settings);
}

void HostBackend::barrier(const CallSettings& settings) {
  run_barrier({.operation = Operation::barrier}, settings);
}

void HostBackend::finalize(const CallSettings& settings) {
  // Twice: a rank that finds different calls in the first never comes to the second, so nobody ends
  // without the error.
  run_barrier({.operation = Operation::finalize}, settings);
  run_barrier({.operation = Operation::finalize}, settings);
}

CallContext HostBackend::next_message(std::map<Message, std::uint64_t>& sequences,
                                      const CallSignature& call, std::uint32_t tag) const {
  return {.key = {.communicator = world,
                  .kind = transport::StreamKind::message,
                  .tag = tag,
                  .sequence = ++sequences[{call.root, tag}]},
          .signature = call};
}

void HostBackend::run_messages(const CallSignature& call, const Schedule& schedule,
                               const engine::Memory& memory, const CallContext& send_call,
                               const CallContext& recv_call, const CallSettings& settings) {
  plane_.history().begin_other(call);
  const CallScope scope(plane_.history());
  checker_.set_messages({&send_call, &recv_call});
  engine::Execution execution(schedule, memory, send_call, recv_call, links_);
  const int self = plane_.peers().rank();
  if (receives(recv_call) && recv_call.signature.count == 0 && recv_call.signature.root != self) {
    execution.await_empty_message();
  }
  run(execution, call, settings);
  checker_.set_messages({});
  if (sends(send_call)) links_.finish_sent(send_call.key, send_call.signature.root);
  if (receives(recv_call)) links_.finish_received(recv_call.key, recv_call.signature.root);
}

void HostBackend::send(const void* buffer, std::size_t count, Type type, int to,
                       const CallSettings& settings) {
  const CallSignature call{Operation::send, type, Operator::sum, to, count};
  require_no_verdict(call);
  const auto context = next_message(sent_, call, settings.tag);
  if (count == 0) return links_.announce(to, context);
  run_messages(call, algorithm::send(problem(count, type, 0), to),
               {.input = static_cast<const std::byte*>(buffer), .element_bytes = size_of(type)},
               context, context, settings);
}

void HostBackend::recv(void* buffer, std::size_t count, Type type, int from,
                       const CallSettings& settings) {
  const CallSignature call{Operation::recv, type, Operator::sum, from, count};
  const auto context = next_message(received_, call, settings.tag);
  run_messages(call, algorithm::recv(problem(count, type, 0), from),
               {.output = static_cast<std::byte*>(buffer), .element_bytes = size_of(type)}, context,
               context, settings);
}

void HostBackend::send_recv(const void* send, std::size_t send_count, int to, void* recv,
                            std::size_t recv_count, int from, Type type,
                            const CallSettings& settings) {
  require_no_verdict({Operation::send_recv, type, Operator::sum, to, send_count});
  const auto send_call =
      next_message(sent_, {Operation::send, type, Operator::sum, to, send_count}, settings.tag);
  const auto recv_call = next_message(
      received_, {Operation::recv, type, Operator::sum, from, recv_count}, settings.tag);
  const int self = plane_.peers().rank();
  if (send_count == 0 && to != self) links_.announce(to, send_call);
  run_messages(
      {Operation::send_recv, type, Operator::sum, to, send_count},
      algorithm::send_recv(problem(send_count, type, 0), to, static_cast<std::int64_t>(send_count),
                           from, static_cast<std::int64_t>(recv_count)),
      {.input = static_cast<const std::byte*>(send),
       .output = static_cast<std::byte*>(recv),
       .element_bytes = size_of(type)},
      send_call, recv_call, settings);
}

}  // namespace tutti
