#include "communicator/host_backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "algorithm/algorithms.hpp"
#include "algorithm/choice.hpp"
#include "base/error_builder.hpp"
#include "engine/reduce.hpp"
#include "host_pending.hpp"
#include "signature.hpp"

namespace tutti {
namespace {

using algorithm::Schedule;
using algorithm::ScheduleArguments;

constexpr std::chrono::seconds leave_limit{1};

constexpr std::size_t max_kept_scratch = std::size_t{4} << 20;

std::int64_t signed_count(std::size_t count) {
  return static_cast<std::int64_t>(count);
}

std::vector<std::int64_t> signed_counts(std::span<const std::size_t> counts) {
  return {counts.begin(), counts.end()};
}

bool is_16_bit_float(Type type) {
  return type == Type::f16 || type == Type::bf16;
}

}  // namespace

HostBackend::HostBackend(control::Plane& plane, engine::ProgressEngine& progress_engine,
                         control::Group group, Settings settings,
                         std::unique_ptr<SharedPath> shared)
    : plane_(plane),
      progress_(progress_engine),
      settings_(settings),
      history_(plane.open_history(std::move(group))),
      shared_(std::move(shared)) {
  for (const int rank : this->group().world) {
    host_of_rank_.push_back(plane.peers().place_of(rank).host_index);
  }
}

HostBackend::~HostBackend() {
  try {
    progress_.leave(group(), leave_limit);
  } catch (const std::exception&) {
    // Without memory for a message the peers find out at their deadlines.
  }
  plane_.close_history(group().id);
}

ScheduleArguments HostBackend::problem_of(const CheckedCollective& call) const {
  return {.rank = group().rank,
          .size = group().size(),
          .root = std::max(call.root, 0),
          .count = signed_count(call.count),
          .in_place = call.in_place || shape_of(call.operation).send == Extent::none,
          .counts = signed_counts(call.counts),
          .recv_counts = signed_counts(call.recv_counts),
          .host = host_of_rank_};
}

bool HostBackend::in_rank_order(const CheckedCollective& call) const {
  return shape_of(call.operation).reduces &&
         (settings_.deterministic || is_16_bit_float(call.type));
}

/// By the name that the call asks for, else by the preferred one if the operation has it, else as
/// chosen.
Schedule HostBackend::choose_schedule(const CheckedCollective& call,
                                      const CallSettings& settings) const {
  const bool in_rank_order = this->in_rank_order(call);
  auto problem = problem_of(call);
  const algorithm::Traits traits{.element_bytes = signed_count(size_of(call.type)),
                                 .in_rank_order = in_rank_order,
                                 .costs = settings_.costs};
  const auto known = algorithm::algorithms_of(call.operation, in_rank_order);
  const auto has = [&](std::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (!settings.algorithm.empty() && !has(settings.algorithm)) {
    throw Error(ErrorCode::usage,
                fmt::format("{} has no algorithm \"{}\"{}; it has {}", tutti::name(call.operation),
                            settings.algorithm,
                            in_rank_order ? " that combines in the order of ranks, as 16-bit "
                                            "floats and deterministic calls need"
                                          : "",
                            fmt::join(known, ", ")));
  }
  std::string_view name = settings.algorithm;
  if (name.empty() && has(settings.preferred)) name = settings.preferred;
  if (name.empty()) {
    name = algorithm::choose(call.operation, problem, traits);
  }
  problem.chunk =
      settings_.chunk_bytes == 0
          ? algorithm::choose_chunk(call.operation, name, problem, traits)
          : signed_count(std::max<std::size_t>(1, settings_.chunk_bytes / size_of(call.type)));
  return algorithm::make(call.operation, name, problem);
}

/// Takes all the memory that it needs before it counts the call as made.
void HostBackend::prepare(engine::Task& task, const CheckedCollective& call,
                          const CallSettings& settings, std::vector<std::byte>& scratch) {
  const auto& shape = shape_of(call.operation);
  require_reducible(call);
  task.schedule = choose_schedule(call, settings);
  latest_algorithm_ = task.schedule.algorithm;
  auto* output = static_cast<std::byte*>(call.recv);
  if (call.in_place && shape.send == Extent::all && shape.recv == Extent::one) {
    // Schedules work in the larger buffer, which the caller let us write to.
    output = static_cast<std::byte*>(const_cast<void*>(call.send));
  }
  const bool one_buffer = call.in_place || shape.send == Extent::none;
  const bool is_barrier = shape.recv == Extent::none;
  task.memory = {.input = one_buffer ? output : static_cast<const std::byte*>(call.send),
                 .output = output,
                 .element_bytes = size_of(call.type),
                 .reduce = engine::reduce_function(call.type, is_barrier ? Operator::max : call.op),
                 .combine = engine::combine_function(call.type, call.op)};
  prepare_division(task, call);
  prepare_weighing(task, call);
  const auto bytes =
      static_cast<std::size_t>(task.schedule.scratch_elements) * task.memory.element_bytes;
  if (scratch.size() < bytes) scratch.resize(bytes);
  task.memory.scratch = scratch.data();

  auto signature = signature_of(call);
  signature.algorithm = algorithm_id(task.schedule.algorithm);
  const auto past = history_->begin_collective(signature);
  task.ticket = past.ticket;
  task.call = {.key = {.communicator = group().id, .sequence = past.sequence},
               .signature = signature,
               .fingerprint = past.before};
  task.pending.call = signature;
  task.pending.sequence = past.sequence;
  task.pending.timeout = settings.timeout;
  task.deadline = plane_.deadline(settings.timeout);
}

void HostBackend::prepare_division(engine::Task& task, const CheckedCollective& call) const {
  if (call.op != Operator::average || call.recv == nullptr || engine::divides_itself(call.type)) {
    return;
  }
  task.division = {.buffer = static_cast<std::byte*>(call.recv),
                   .count = call.count,
                   .type = call.type,
                   .ranks = group().size(),
                   .weighs = engine::is_weighed(call.type) && call.in_place};
}

/// Of an average that does not divide itself.
void HostBackend::prepare_weighing(engine::Task& task, const CheckedCollective& call) const {
  if (call.op != Operator::average || !engine::is_weighed(call.type)) return;
  const auto& shape = shape_of(call.operation);
  if (!shape.reduces) return;
  engine::Contribution contribution{.type = call.type, .ranks = group().size()};
  if (call.in_place) {
    // All of it may be overwritten, and has been weighed there.
    if (shape.send == shape.recv) return;
    contribution.is_output = true;
    const auto begin = (static_cast<const std::byte*>(call.recv) - task.memory.output) /
                       static_cast<std::ptrdiff_t>(task.memory.element_bytes);
    contribution.weighed = {begin, begin + signed_count(call.count)};
  }
  task.memory.contribution = contribution;
}

void HostBackend::require_no_failure(const CallSignature& call) const {
  if (!plane_.failed()) return;
  throw ErrorBuilder(plane_.agreed_error())
      .in(control::describe(call, group()), history_->activity().sequence)
      .error();
}

transport::StreamKey HostBackend::next_message(std::map<Peer, std::uint64_t>& sequences, int peer,
                                               std::uint32_t tag) const {
  return {.communicator = group().id,
          .kind = transport::StreamKind::message,
          .tag = tag,
          .sequence = ++sequences[{peer, tag}]};
}

HostBackend::BegunMessages HostBackend::begin_messages(const Message& message,
                                                       const CallSettings& settings) {
  const bool sends = message.operation != Operation::recv;
  const bool receives = message.operation != Operation::send;
  BegunMessages begun{.call = {.operation = message.operation,
                               .type = message.type,
                               .root = sends ? message.to : message.from,
                               .count = sends ? message.send_count : message.recv_count}};
  if (sends && plane_.failed()) require_no_failure(begun.call);
  const auto element = size_of(message.type);
  const auto* const out = static_cast<const std::byte*>(message.send);
  auto* const in = static_cast<std::byte*>(message.recv);
  const auto sent = [&](int to, std::size_t count) -> CallSignature {
    return {.operation = Operation::send, .type = message.type, .root = to, .count = count};
  };
  if (sends && receives && message.to == group().rank) {
    begun.messages.own = {.from = {out, message.send_count * element}, .to = in};
  } else {
    if (sends) {
      begun.messages.out = {.to = group().world_of(message.to),
                            .call = {.key = next_message(sent_, message.to, settings.tag),
                                     .signature = sent(message.to, message.send_count)},
                            .bytes = {out, message.send_count * element}};
    }
    if (receives) {
      const auto key = next_message(received_, message.from, settings.tag);
      begun.messages.in = {
          .from = group().world_of(message.from),
          .call = {.key = key,
                   .signature = {.operation = Operation::recv,
                                 .type = message.type,
                                 .root = message.from,
                                 .count = message.recv_count}},
          .senders_call = {.key = key, .signature = sent(group().rank, message.recv_count)},
          .bytes = {in, message.recv_count * element}};
    }
  }
  begun.past = history_->begin_other(begun.call);
  return begun;
}

void HostBackend::prepare(engine::Task& task, const BegunMessages& begun,
                          const CallSettings& settings) const {
  task.messages = begun.messages;
  task.ticket = begun.past.ticket;
  task.pending.call = begun.call;
  task.pending.sequence = begun.past.sequence;
  task.pending.timeout = settings.timeout;
  task.deadline = plane_.deadline(settings.timeout);
}

/// As all ranks know it alike; the names of algorithms over links keep their meaning.
bool HostBackend::goes_shared(const CheckedCollective& call, const CallSettings& settings) const {
  if (!shared_ || !engine::shareable(call.operation)) return false;
  if (!settings.algorithm.empty()) return settings.algorithm == SharedPath::name;
  if (settings.preferred.empty()) return true;
  const auto known = algorithm::algorithms_of(call.operation, in_rank_order(call));
  return std::find(known.begin(), known.end(), settings.preferred) == known.end();
}

HostBackend::BegunShared HostBackend::begin_shared(const CheckedCollective& call) {
  auto& prepared = shared_->prepare(call);
  if (latest_algorithm_ != SharedPath::name) latest_algorithm_ = SharedPath::name;
  if (plane_.failed()) require_no_failure(prepared.signature);
  const auto past = history_->begin_collective(prepared.signature);
  return {past, shared_->begin(prepared, past.fingerprint)};
}

/// For the progress engine.
void HostBackend::prepare_shared(engine::Task& task, const control::PastCall& past,
                                 const CallSettings& settings) const {
  task.ticket = past.ticket;
  task.pending.call = past.call;
  task.pending.sequence = past.sequence;
  task.pending.timeout = settings.timeout;
  task.call = {.key = {.communicator = group().id, .sequence = past.sequence},
               .signature = past.call,
               .fingerprint = past.before};
  task.deadline = plane_.deadline(settings.timeout);
}

/// The others wait for this rank.
void HostBackend::end_failed(const CallSignature& call, std::uint64_t ticket,
                             const std::exception& error) {
  const auto& peers = plane_.peers();
  static_cast<void>(plane_.report_and_wait(
      {.code = ErrorCode::aborted,
       .failed_ranks = {peers.rank()},
       .sentence = fmt::format("{}: {} failed: {}", peers.describe(peers.rank()),
                               control::describe(call, group()), error.what()),
       .origin = peers.rank()}));
  history_->end(ticket);
}

void HostBackend::run_shared(const CheckedCollective& call, const CallSettings& settings) {
  auto [past, shared] = begin_shared(call);
  try {
    if (shared_->run(shared)) return history_->end_latest(past.ticket);
  } catch (const std::exception& error) {
    end_failed(past.call, past.ticket, error);
    throw;
  }
  engine::Task task(history_);
  prepare_shared(task, past, settings);
  task.shared = &shared;
  progress_.run(task);
}

void HostBackend::run(const CheckedCollective& call, const CallSettings& settings) {
  if (goes_shared(call, settings)) return run_shared(call, settings);
  // A rank that finds different calls in the first round of the end never comes to the second, so
  // nobody ends without the error.
  const bool ends = call.operation == Operation::finalize;
  for (int round = 0; round < (ends ? 2 : 1); ++round) {
    if (round > 0) require_all_received(settings);
    engine::Task task(history_);
    prepare(task, call, settings, scratch_);
    progress_.run(task);
  }
  // Of size × chunk: what a large call has needed is not kept for ever.
  if (scratch_.size() > max_kept_scratch) std::vector<std::byte>().swap(scratch_);
}

/// Each rank hears how many messages every other has sent it, and counts what it has received.
void HostBackend::require_all_received(const CallSettings& settings) {
  const auto size = static_cast<std::size_t>(group().size());
  if (size == 1) return;
  const auto count = [&](const std::map<Peer, std::uint64_t>& sequences) {
    std::vector<std::uint64_t> counts(size);
    for (const auto& [peer, number] : sequences) {
      if (peer.second != internal_tag) counts[static_cast<std::size_t>(peer.first)] += number;
    }
    return counts;
  };
  const auto sent = count(sent_);
  const auto received = count(received_);
  std::vector<std::uint64_t> due(size);
  const CheckedCollective exchange{.operation = Operation::all_to_all,
                                   .type = Type::u64,
                                   .count = 1,
                                   .send = sent.data(),
                                   .recv = due.data()};
  engine::Task task(history_);
  prepare(task, exchange, {.timeout = settings.timeout}, scratch_);
  progress_.run(task);
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (due[peer] == received[peer]) continue;
    const auto& peers = plane_.peers();
    const int from = group().world_of(static_cast<int>(peer));
    const auto error = plane_.report_and_wait(
        {.code = ErrorCode::mismatch,
         .failed_ranks = {from, peers.rank()},
         .sentence = fmt::format("{} has sent {} messages to {}, which has received {} of them: "
                                 "each send needs its recv",
                                 peers.describe(from), due[peer], peers.describe(peers.rank()),
                                 received[peer]),
         .origin = peers.rank()});
    throw ErrorBuilder(error)
        .in(describe(CallSignature{.operation = Operation::finalize}),
            history_->activity().sequence)
        .error();
  }
}

void HostBackend::run(const Message& message, const CallSettings& settings) {
  auto begun = begin_messages(message, settings);
  try {
    if (progress_.try_inline(begun.messages)) return history_->end_latest(begun.past.ticket);
  } catch (const std::exception& error) {
    end_failed(begun.call, begun.past.ticket, error);
    throw;
  }
  engine::Task task(history_);
  prepare(task, begun, settings);
  progress_.run(task);
}

std::unique_ptr<Pending> HostBackend::start(const CheckedCollective& call,
                                            const CallSettings& settings) {
  progress_.make_progress_thread();
  auto task = std::make_shared<engine::Task>(history_);
  if (goes_shared(call, settings)) {
    auto [past, shared] = begin_shared(call);
    task->shared = &task->own_shared.emplace(shared);
    prepare_shared(*task, past, settings);
  } else {
    prepare(*task, call, settings, task->scratch);
  }
  return start(task);
}

std::unique_ptr<Pending> HostBackend::start(const Message& message, const CallSettings& settings) {
  progress_.make_progress_thread();
  auto task = std::make_shared<engine::Task>(history_);
  prepare(*task, begin_messages(message, settings), settings);
  return start(task);
}

std::unique_ptr<Pending> HostBackend::start(const std::shared_ptr<engine::Task>& task) {
  auto pending = std::make_unique<HostPending>(progress_, task);
  progress_.start(task);
  return pending;
}

void HostBackend::finish_started() {
  progress_.wait_for_all(group());
}

}  // namespace tutti
