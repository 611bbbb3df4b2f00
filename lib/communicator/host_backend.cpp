#include "communicator/host_backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "algorithm/algorithms.hpp"
#include "algorithm/choice.hpp"
#include "averages.hpp"
#include "base/error_builder.hpp"
#include "communicator/arguments.hpp"
#include "engine/reduce.hpp"
#include "host_pending.hpp"

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

/// What a large call has needed, such as scratch memory of size × chunk, is not kept for ever.
void drop_if_large(std::vector<std::byte>& memory) {
  if (memory.size() > max_kept_scratch) std::vector<std::byte>().swap(memory);
}

}  // namespace

HostBackend::HostBackend(control::FailureDetector& detector, control::CallHistories& histories,
                         engine::ProgressEngine& progress_engine, control::Group group,
                         Settings settings, std::unique_ptr<SharedPath> shared,
                         std::unique_ptr<transport::CollectiveChannel> channel)
    : detector_(detector),
      histories_(histories),
      progress_(progress_engine),
      settings_(settings),
      history_(histories.open(std::move(group))),
      blocking_(history_),
      shared_(std::move(shared)),
      channel_(std::move(channel)) {
  int members = 0;
  for (const int rank : this->group().world) {
    host_of_rank_.push_back(detector.peers().place_of(rank).host_index);
    member_of_rank_.push_back(detector.peers().on_this_host(rank) ? members++ : -1);
  }
}

HostBackend::~HostBackend() {
  try {
    progress_.leave(group(), leave_limit);
  } catch (const std::exception&) {
    // Without memory for a message the peers find out at their deadlines.
  }
  histories_.close(group().id);
}

ScheduleArguments HostBackend::schedule_arguments(const CheckedCollective& call) const {
  return {
      .rank = group().rank,
      .size = group().size(),
      .root = std::max(call.root, 0),
      .count = signed_count(call.count),
      .in_place = call.in_place || shape_of(call.operation).send == Extent::none,
      .counts = signed_counts(call.counts),
      .recv_counts = signed_counts(call.recv_counts),
      .host = host_of_rank_,
      .max_published = std::max<std::int64_t>(
          1, signed_count(transport::round_bytes_of(group().id == 0 ? 0 : 1) / size_of(call.type))),
      .shares_memory = channel_ != nullptr};
}

bool HostBackend::in_rank_order(const CheckedCollective& call) const {
  return shape_of(call.operation).reduces &&
         (settings_.deterministic || is_16_bit_float(call.type));
}

/// The algorithm that the call asks for, else the preferred one if the operation has it, else
/// empty: the library chooses. Not the caller's own memory.
std::string_view HostBackend::named_algorithm(const CheckedCollective& call,
                                              const CallSettings& settings) const {
  if (settings.algorithm.empty() && settings.preferred.empty()) return {};
  const bool in_rank_order = this->in_rank_order(call);
  const auto known = algorithm::algorithms_of(call.operation, in_rank_order);
  const auto wanted = settings.algorithm.empty() ? settings.preferred : settings.algorithm;
  const auto found = std::find(known.begin(), known.end(), wanted);
  if (found != known.end()) return *found;
  // A single rank shares its memory with all.
  if (wanted == SharedPath::name && group().size() == 1) return {};
  if (!settings.algorithm.empty()) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{} has no algorithm \"{}\"{}; it has {}{}", tutti::name(call.operation),
                    settings.algorithm,
                    in_rank_order ? " that combines in the order of ranks, as 16-bit floats and "
                                    "deterministic calls need"
                                  : "",
                    fmt::join(known, ", "),
                    engine::shareable(call.operation)
                        ? ", and shared if all ranks of the communicator share memory"
                        : ""));
  }
  return {};
}

Schedule HostBackend::make_schedule(const CheckedCollective& call,
                                    std::string_view algorithm) const {
  auto arguments = schedule_arguments(call);
  const algorithm::Traits traits{.element_bytes = signed_count(size_of(call.type)),
                                 .in_rank_order = in_rank_order(call),
                                 .costs = settings_.costs};
  if (algorithm.empty()) algorithm = algorithm::choose(call.operation, arguments, traits);
  arguments.chunk =
      settings_.chunk_bytes == 0
          ? algorithm::choose_chunk(call.operation, algorithm, arguments, traits)
          : signed_count(std::max<std::size_t>(1, settings_.chunk_bytes / size_of(call.type)));
  return algorithm::make(call.operation, algorithm, arguments);
}

std::shared_ptr<const Schedule> HostBackend::schedule_of(const CheckedCollective& call,
                                                         const CallSettings& settings) {
  const auto algorithm = named_algorithm(call, settings);
  if (auto known = schedules_.find(call, algorithm)) return known;
  return schedules_.insert(call, algorithm, make_schedule(call, algorithm));
}

void HostBackend::begin(engine::Task& task, const control::PastCall& call,
                        const CallSettings& settings) const {
  task.begin(call, settings.timeout, detector_.deadline(settings.timeout));
}

/// Takes all the memory that it needs before it counts the call as made.
void HostBackend::prepare(engine::Task& task, const CheckedCollective& call,
                          const CallSettings& settings) {
  const auto& shape = shape_of(call.operation);
  require_reducible(call);
  const auto& schedule = task.work.schedule = schedule_of(call, settings);
  auto& memory = task.work.memory;
  latest_algorithm_ = schedule->algorithm;
  auto* output = static_cast<std::byte*>(call.recv);
  if (call.in_place && shape.send == Extent::all && shape.recv == Extent::one) {
    // Schedules work in the larger buffer, which the caller let us write to.
    output = static_cast<std::byte*>(const_cast<void*>(call.send));
  }
  const bool one_buffer = call.in_place || shape.send == Extent::none;
  const bool is_barrier = shape.recv == Extent::none;
  memory = {.input = one_buffer ? output : static_cast<const std::byte*>(call.send),
            .output = output,
            .element_bytes = size_of(call.type),
            .reduce = engine::reduce_function(call.type, is_barrier ? Operator::max : call.op),
            .combine = engine::combine_function(call.type, call.op)};
  memory.contribution = contribution_of(call, output, group().size());
  task.work.division = division_of(call, group().size());
  const auto bytes = static_cast<std::size_t>(schedule->scratch_elements) * memory.element_bytes;
  if (task.scratch.size() < bytes) task.scratch.resize(bytes);
  memory.scratch = task.scratch.data();
  const auto signature = signature_of(call, algorithm_id(schedule->algorithm));
  const auto past = history_->begin_collective(signature);
  if (channel_ && schedule->rounds > 0) {
    task.work.rounds.emplace(*channel_, member_of_rank_, past.fingerprint,
                             static_cast<std::uint64_t>(schedule->rounds));
  }
  begin(task, past, settings);
}

void HostBackend::require_no_failure(const CallSignature& call) const {
  if (!detector_.job_failed()) return;
  throw ErrorBuilder(detector_.agreed_error())
      .in(control::describe(call, group()), history_->activity().sequence)
      .error();
}

transport::StreamKey HostBackend::message_key(std::uint32_t tag, std::uint64_t sequence) const {
  return {.communicator = group().id,
          .kind = transport::StreamKind::message,
          .tag = tag,
          .sequence = sequence};
}

std::shared_ptr<engine::ReceiveOrder> HostBackend::order_of(std::uint32_t tag) {
  auto& order = any_orders_[tag];
  if (order) return order;
  order = std::make_shared<engine::ReceiveOrder>();
  for (int rank = 0; rank < group().size(); ++rank) {
    const auto found = received_.find({rank, tag});
    order->received.push_back(found == received_.end() ? 0 : found->second);
    if (found != received_.end()) received_.erase(found);
  }
  return order;
}

std::uint64_t HostBackend::next_received(int peer, std::uint32_t tag) {
  const auto found = any_orders_.find(tag);
  if (found == any_orders_.end()) return ++received_[{peer, tag}];
  auto& order = *found->second;
  if (order.pending.load(std::memory_order_acquire) > 0) {
    throw Error(ErrorCode::usage,
                fmt::format("recv from rank {} while a receive from any rank with tag {} is in "
                            "flight: complete that first, or use another tag",
                            peer, tag));
  }
  return ++order.received[static_cast<std::size_t>(peer)];
}

engine::Messages HostBackend::messages_of(const Message& message, const CallSettings& settings) {
  const bool sends = message.operation != Operation::recv;
  const bool receives = message.operation != Operation::send;
  const auto element = size_of(message.type);
  const auto* const out = static_cast<const std::byte*>(message.send);
  auto* const in = static_cast<std::byte*>(message.recv);
  const auto sent = [&](int to, std::size_t count) -> CallSignature {
    return {.operation = Operation::send, .type = message.type, .root = to, .count = count};
  };
  engine::Messages messages;
  if (sends && receives && message.to == group().rank) {
    messages.own = {.from = {out, message.send_count * element}, .to = in};
    return messages;
  }
  // First, because it may throw.
  const bool names_sender = receives && message.from != any_rank;
  const auto key =
      message_key(settings.tag, names_sender ? next_received(message.from, settings.tag) : 0);
  if (sends) {
    messages.out = {.to = group().world_of(message.to),
                    .call = {.key = message_key(settings.tag, ++sent_[{message.to, settings.tag}]),
                             .signature = sent(message.to, message.send_count)},
                    .bytes = {out, message.send_count * element}};
  }
  if (receives && !names_sender) {
    auto order = order_of(settings.tag);
    order->pending.fetch_add(1, std::memory_order_relaxed);
    messages.any = {.order = std::move(order),
                    .call = {.key = key,
                             .signature = {.operation = Operation::recv,
                                           .type = message.type,
                                           .count = message.recv_count}},
                    .bytes = {in, message.recv_count * element}};
  } else if (receives) {
    messages.in = {
        .from = group().world_of(message.from),
        .call = {.key = key,
                 .signature = {.operation = Operation::recv,
                               .type = message.type,
                               .root = message.from,
                               .count = message.recv_count}},
        .senders_call = {.key = key, .signature = sent(group().rank, message.recv_count)},
        .bytes = {in, message.recv_count * element}};
  }
  return messages;
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
  require_no_failure(prepared.signature);
  const auto past = history_->begin_collective(prepared.signature);
  return {past, shared_->begin(prepared, past.fingerprint)};
}

/// The others wait for this rank.
void HostBackend::end_failed(const control::PastCall& call, const std::exception& error) {
  const auto& peers = detector_.peers();
  static_cast<void>(detector_.report_and_wait(
      {.code = ErrorCode::aborted,
       .failed_ranks = {peers.rank()},
       .sentence = fmt::format("{}: {} failed: {}", peers.describe(peers.rank()),
                               control::describe(call.call, group()), error.what()),
       .origin = peers.rank()}));
  if (shared_) shared_->abandon_memory();
  history_->end(call.ticket);
}

void HostBackend::run_shared(const CheckedCollective& call, const CallSettings& settings) {
  auto [past, shared] = begin_shared(call);
  try {
    if (shared_->run(shared)) return history_->end_latest(past.ticket);
  } catch (const std::exception& error) {
    end_failed(past, error);
    throw;
  }
  blocking_.reset();
  blocking_.work.shared = shared;
  begin(blocking_, past, settings);
  progress_.run(blocking_);
}

void HostBackend::run_scheduled(const CheckedCollective& call, const CallSettings& settings) {
  blocking_.reset();
  prepare(blocking_, call, settings);
  progress_.run(blocking_);
  drop_if_large(blocking_.scratch);
}

/// Returns `call`, or what remains to do of a premultiplied sum after the multiplication.
const CheckedCollective& HostBackend::multiplied(const CheckedCollective& call,
                                                 const CallSettings& settings, engine::Task& task,
                                                 std::optional<CheckedCollective>& rest) const {
  if (call.op != Operator::premultiplied_sum) return call;
  // Errors come first: the buffer of a call in place changes here.
  require_reducible(call);
  static_cast<void>(named_algorithm(call, settings));
  return rest.emplace(premultiplied(call, group().size(), task.premultiplied));
}

void HostBackend::run(const CheckedCollective& given, const CallSettings& settings) {
  std::optional<CheckedCollective> rest;
  const auto& call = multiplied(given, settings, blocking_, rest);
  if (goes_shared(call, settings)) {
    run_shared(call, settings);
  } else {
    run_scheduled(call, settings);
  }
  drop_if_large(blocking_.premultiplied);
  if (call.operation != Operation::finalize) return;
  // A rank that finds different calls in the first round of the end never comes to the second, so
  // nobody ends without the error.
  require_all_received(settings);
  run_scheduled(call, settings);
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
  auto received = count(received_);
  for (const auto& [tag, order] : any_orders_) {
    for (std::size_t peer = 0; peer < size; ++peer) received[peer] += order->received[peer];
  }
  std::vector<std::uint64_t> due(size);
  const CheckedCollective exchange{.operation = Operation::all_to_all,
                                   .type = Type::u64,
                                   .count = 1,
                                   .send = sent.data(),
                                   .recv = due.data()};
  run_scheduled(exchange, {.timeout = settings.timeout});
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (due[peer] == received[peer]) continue;
    const auto& peers = detector_.peers();
    const int from = group().world_of(static_cast<int>(peer));
    const auto error = detector_.report_and_wait(
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
  const auto signature = signature_of(message);
  if (message.operation != Operation::recv) require_no_failure(signature);
  auto messages = messages_of(message, settings);
  const auto past = history_->begin_other(signature);
  try {
    if (progress_.try_inline(messages)) return history_->end_latest(past.ticket);
  } catch (const std::exception& error) {
    end_failed(past, error);
    throw;
  }
  blocking_.reset();
  blocking_.work.messages = messages;
  begin(blocking_, past, settings);
  progress_.run(blocking_);
  if (messages.any) latest_source_ = source_of(blocking_.work.messages);
}

std::unique_ptr<Pending> HostBackend::start(const CheckedCollective& given,
                                            const CallSettings& settings) {
  progress_.make_progress_thread();
  auto task = std::make_shared<engine::Task>(history_);
  std::optional<CheckedCollective> rest;
  const auto& call = multiplied(given, settings, *task, rest);
  if (goes_shared(call, settings)) {
    const auto [past, shared] = begin_shared(call);
    task->work.shared = shared;
    begin(*task, past, settings);
  } else {
    prepare(*task, call, settings);
  }
  return start(task);
}

std::unique_ptr<Pending> HostBackend::start(const Message& message, const CallSettings& settings) {
  progress_.make_progress_thread();
  const auto signature = signature_of(message);
  if (message.operation != Operation::recv) require_no_failure(signature);
  auto task = std::make_shared<engine::Task>(history_);
  task->work.messages = messages_of(message, settings);
  begin(*task, history_->begin_other(signature), settings);
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
