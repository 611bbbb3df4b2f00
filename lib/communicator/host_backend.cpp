#include "communicator/host_backend.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "algorithm/choice.hpp"
#include "averages.hpp"
#include "base/error_builder.hpp"
#include "communicator/arguments.hpp"
#include "displaced_blocks.hpp"
#include "engine/reduce.hpp"
#include "host_pending.hpp"

namespace tutti {
namespace {

constexpr std::chrono::seconds leave_limit{1};

constexpr std::size_t max_kept_scratch = std::size_t{4} << 20;

/// What a large call has needed, such as scratch memory of size × chunk, is not kept for ever.
void drop_if_large(std::vector<std::byte>& memory) {
  if (memory.capacity() > max_kept_scratch) std::vector<std::byte>().swap(memory);
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
      channel_(std::move(channel)),
      numbers_(this->group().size()) {
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

void HostBackend::begin(engine::Task& task, const control::PastCall& call,
                        const CallSettings& settings) const {
  task.begin(call, settings.timeout, detector_.deadline(settings.timeout));
}

/// Takes all the memory that it needs before it counts the call as made.
void HostBackend::prepare(engine::Task& task, const CheckedCollective& call,
                          const CallSettings& settings) {
  if (is_displaced(call)) {
    static_cast<void>(named_algorithm(call, settings));  // its errors come before the copies
    return prepare(task, packed(call, group().rank, task), settings);
  }
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
  if (channel_ && schedule->published_chunks > 0) {
    task.work.chunks.emplace(*channel_, member_of_rank_, past.fingerprint,
                             static_cast<std::uint64_t>(schedule->published_chunks));
  }
  begin(task, past, settings);
}

void HostBackend::require_no_failure(const CallSignature& call) const {
  if (!detector_.job_failed()) return;
  throw ErrorBuilder(detector_.agreed_error())
      .in(control::describe(call, group()), history_->activity().sequence)
      .error();
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
  drop_if_large(blocking_.packed);
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

void HostBackend::run(const CheckedCollective& call, const CallSettings& settings) {
  if (call.op == Operator::premultiplied_sum) {
    std::optional<CheckedCollective> rest;
    run_once(multiplied(call, settings, blocking_, rest), settings);
    drop_if_large(blocking_.premultiplied);
    return;
  }
  run_once(call, settings);
  if (call.operation != Operation::finalize) return;
  // A rank that finds different calls in the first round of the end never comes to the second, so
  // nobody ends without the error.
  require_all_received(settings);
  run_scheduled(call, settings);
}

void HostBackend::run_once(const CheckedCollective& call, const CallSettings& settings) {
  if (goes_shared(call, settings)) return run_shared(call, settings);
  run_scheduled(call, settings);
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

std::unique_ptr<Pending> HostBackend::start(const std::shared_ptr<engine::Task>& task) {
  auto pending = std::make_unique<HostPending>(progress_, task);
  progress_.start(task);
  return pending;
}

void HostBackend::finish_started() {
  progress_.wait_for_all(group());
}

}  // namespace tutti
