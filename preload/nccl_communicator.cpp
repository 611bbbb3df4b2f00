#include "nccl_communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "device/inventory.hpp"
#include "direct/image.hpp"

namespace tutti::preload {
namespace {

/// In the current context; null if there is none.
device::CudaEvent make_event(const device::CudaCalls& cuda) {
  device::CudaEvent event = nullptr;
  const auto result = cuda.create_event(&event, device::event_without_timing);
  return result == device::cuda_success ? event : nullptr;
}

}  // namespace

bool CallCounts::any() const {
  const auto is_set = [](const std::atomic<std::uint64_t>& count) { return count.load() != 0; };
  return std::any_of(served.begin(), served.end(), is_set) ||
         std::any_of(handed_on.begin(), handed_on.end(), [&](const auto& by_reason) {
           return std::any_of(by_reason.begin(), by_reason.end(), is_set);
         });
}

NcclCommunicator::NcclCommunicator(Parts parts)
    : parts_(std::move(parts)), log_(parts_.log_level, nullptr), marked_at_(Clock::now()) {
  log_.set_rank(parts_.who.rank);
  if (!has_path()) {
    log_.info(fmt::format("NCCL takes all calls on a communicator of {} ranks: {}", who().size,
                          no_path_because()));
    return;
  }
  try {
    const device::CurrentContext current(*parts_.opened.context);
    handed_on_ = make_event(cuda());
    in_graph_ = make_event(cuda());
  } catch (const Error&) {
    // The first call finds out.
  }
  log_.info(fmt::format("a communicator of {} ranks has a direct path between GPUs", who().size));
}

NcclCommunicator::~NcclCommunicator() {
  parts_.opened.path.reset();
  for (auto* const event : {handed_on_, in_graph_}) {
    if (event != nullptr) cuda().destroy_event(event);
  }
}

std::optional<Identity> NcclCommunicator::next_child(int color) {
  const auto number = ++splits_;
  if (!parts_.identity) return std::nullopt;
  return parts_.identity->child(number, color);
}

std::optional<Obstacle> NcclCommunicator::obstacle(const NcclCall& call) const {
  if (!has_path()) return Obstacle::no_path;
  const auto translated = translate(call, who().rank, who().size);
  if (!translated) return why_not_translated(call);
  if (parts_.opened.path->serves(*translated)) return std::nullopt;
  const bool has_kernel = device::direct::has_kernel(
      device::direct::Protocol::packets, translated->operation, translated->type, translated->op);
  return has_kernel ? Obstacle::size : Obstacle::arithmetic;
}

std::optional<unsigned long long> NcclCommunicator::capture_of(CudaStream stream) const {
  int status = device::not_capturing;
  unsigned long long id = 0;
  const auto result = cuda().capture_info != nullptr
                          ? cuda().capture_info(stream, &status, &id, nullptr, nullptr, nullptr)
                          : cuda().stream_is_capturing(stream, &status);
  if (result != device::cuda_success || status == device::not_capturing) return std::nullopt;
  return id;
}

/// NCCL runs the calls on a communicator one after the other, whatever their streams. Calls in a
/// graph run later: the program orders them.
device::CudaResult NcclCommunicator::order(CudaStream stream) {
  unsigned long long id = 0;
  auto result = cuda().stream_id(stream, &id);
  if (result != device::cuda_success || latest_stream_ == id) return result;
  if (latest_stream_) {
    result = parts_.opened.path->follow(stream);
    if (result == device::cuda_success && is_recorded_) {
      result = cuda().stream_wait_event(stream, handed_on_, 0);
    }
  }
  latest_stream_ = id;
  return result;
}

/// The branches of a graph run at the same time, but NCCL runs its calls one after the other.
device::CudaResult NcclCommunicator::order_in_graph(CudaStream stream, unsigned long long capture) {
  if (graph_capture_ != capture || graph_stream_ == stream) return device::cuda_success;
  return cuda().stream_wait_event(stream, in_graph_, 0);
}

NcclResult NcclCommunicator::serve(const NcclCall& call) {
  const std::lock_guard lock(mutex_);
  if (failure() != nullptr) return nccl_remote_error;
  counts_.served[static_cast<std::size_t>(call.kind)].fetch_add(1, std::memory_order_relaxed);
  parts_.opened.segment->publish(call);
  auto result = device::cuda_success;
  try {
    const device::CurrentContext current(*parts_.opened.context);
    const auto capture = capture_of(call.stream);
    if (capture) {
      has_captured_ = true;
      result = order_in_graph(call.stream, *capture);
    } else {
      made_.fetch_add(1);
      result = order(call.stream);
    }
    if (result == device::cuda_success) {
      result = parts_.opened.path->queue(*translate(call, who().rank, who().size), call.stream);
    }
    if (capture) record_in_graph(call.stream, *capture);
  } catch (const std::exception& error) {
    fail(fmt::format("{} failed: {}", latest_call(), error.what()));
    return nccl_unhandled_cuda_error;
  }
  if (result == device::cuda_success) return device::nccl_success;
  fail(fmt::format("{} failed: {}", latest_call(), device::cuda_error_text(cuda(), result)));
  return nccl_unhandled_cuda_error;
}

void NcclCommunicator::before_handed_on(const NcclCall& call, Obstacle obstacle) {
  counts_.handed_on[static_cast<std::size_t>(call.kind)][static_cast<std::size_t>(obstacle)]
      .fetch_add(1, std::memory_order_relaxed);
  if (!has_path()) return;
  const std::lock_guard lock(mutex_);
  parts_.opened.segment->publish(call);
  is_handing_on_ = true;
  if (const auto capture = capture_of(call.stream)) {
    static_cast<void>(order_in_graph(call.stream, *capture));
    return;
  }
  made_.fetch_add(1);
  static_cast<void>(order(call.stream));
}

void NcclCommunicator::after_handed_on(CudaStream stream, NcclResult result) {
  if (!has_path()) return;
  const std::lock_guard lock(mutex_);
  is_handing_on_ = false;
  if (result == device::nccl_in_progress) {
    due_on_ = stream;
    is_due_ = true;
  } else {
    record(stream);
  }
}

void NcclCommunicator::after_progress() {
  // Another thread may hold the mutex while it waits for room in a stream.
  if (!is_due_) return;
  const std::lock_guard lock(mutex_);
  if (is_due_.exchange(false)) record(due_on_);
}

void NcclCommunicator::record(CudaStream stream) {
  if (const auto capture = capture_of(stream)) return record_in_graph(stream, *capture);
  if (handed_on_ == nullptr) return;
  if (cuda().record_event(handed_on_, stream) == device::cuda_success) is_recorded_ = true;
}

void NcclCommunicator::record_in_graph(CudaStream stream, unsigned long long capture) {
  if (in_graph_ == nullptr || cuda().record_event(in_graph_, stream) != device::cuda_success)
    return;
  graph_stream_ = stream;
  graph_capture_ = capture;
}

void NcclCommunicator::abort() noexcept {
  if (!has_path()) return;
  static const std::string aborted = "the program has aborted the communicator";
  const std::string* none = nullptr;
  failure_.compare_exchange_strong(none, &aborted);
  parts_.opened.path->abort();
}

void NcclCommunicator::fail(const std::string& sentence) {
  // Never freed: ncclGetLastError gives it to the program.
  failure_.store(new std::string(sentence));
  log_.warning(sentence + "; further calls on this communicator return an error");
  parts_.opened.path->abort();
}

std::string NcclCommunicator::latest_call() const {
  const auto& opened = parts_.opened;
  const auto latest = opened.segment->latest_of(who().rank);
  return fmt::format("{}: {} (call {} of a communicator of {} ranks)",
                     opened.peers->describe(who().rank), describe(latest.call), latest.number,
                     who().size);
}

/// The ranks that have made fewer calls.
std::string NcclCommunicator::missing_ranks() const {
  const auto& opened = parts_.opened;
  const auto own = opened.segment->latest_of(who().rank);
  std::vector<std::string> texts;
  for (int rank = 0; rank < who().size; ++rank) {
    const auto latest = opened.segment->latest_of(rank);
    if (latest.number >= own.number) continue;
    texts.push_back(latest.number == 0
                        ? fmt::format("{} has made no call", opened.peers->describe(rank))
                        : fmt::format("the latest call of {} is call {}, {}",
                                      opened.peers->describe(rank), latest.number,
                                      describe(latest.call)));
  }
  return texts.empty() ? "all ranks have made it" : fmt::format("{}", fmt::join(texts, "; "));
}

std::string NcclCommunicator::ended_ranks() const {
  std::vector<std::string> texts;
  for (const int rank : parts_.opened.processes->ended()) {
    texts.push_back(parts_.opened.peers->describe(rank));
  }
  return fmt::format("{} {} ended", fmt::join(texts, " and "), texts.size() == 1 ? "has" : "have");
}

NcclCommunicator::Pending NcclCommunicator::look_at_calls() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A thread holds it for long only if it waits for room in a stream.
  if (!lock.owns_lock()) return Pending::calls;
  const auto made = made_.load();
  const auto progress = parts_.opened.path->progress();
  const bool handed_on_done =
      !is_handing_on_ && !is_due_ &&
      (!is_recorded_ || cuda().query_event(handed_on_) != device::cuda_not_ready);
  const bool all_done = progress && progress->all_done && handed_on_done;
  if (all_done) made_and_done_ = made;
  const auto marker = !progress ? marker_ : progress->all_done ? made : progress->latest;
  if (marker != marker_) {
    marker_ = marker;
    marked_at_ = Clock::now();
    is_reported_ = false;
  }
  if (!all_done) return Pending::calls;
  return has_captured_ ? Pending::graphs : Pending::nothing;
}

bool NcclCommunicator::are_lost(Pending pending, Clock::duration waited) {
  // Data of the rank that has ended may be here already, and its calls only behind other work.
  constexpr std::chrono::seconds grace{1};
  constexpr std::chrono::seconds long_grace{10};
  if (waited < grace) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (pending == Pending::graphs || !lock.owns_lock()) return true;
  return parts_.opened.path->abort_if_waiting() || waited >= long_grace;
}

void NcclCommunicator::watch() {
  constexpr int looks_a_second = 10;
  if (!has_path() || failure() != nullptr) return;
  const auto now = Clock::now();
  if (parts_.opened.processes->look() && !ended_at_) ended_at_ = now;
  if (!ended_at_ && ++looks_ % looks_a_second != 0) return;
  const device::CurrentContext current(*parts_.opened.context);
  auto pending = Pending::nothing;
  if (made_.load() != made_and_done_ || has_captured_) pending = look_at_calls();
  if (pending == Pending::nothing) {
    marked_at_ = now;
  } else if (ended_at_) {
    if (!are_lost(pending, now - std::max(marked_at_, *ended_at_))) return;
    fail(pending == Pending::calls
             ? fmt::format("{} does not return: {}", latest_call(), ended_ranks())
             : fmt::format("graphs with calls of a communicator of {} ranks can't run: {}",
                           who().size, ended_ranks()));
  } else if (pending == Pending::calls && now - marked_at_ >= parts_.timeout && !is_reported_) {
    is_reported_ = true;
    log_.warning(fmt::format("{} has not returned for {:.0f} s: {}", latest_call(),
                             std::chrono::duration<double>(now - marked_at_).count(),
                             missing_ranks()));
  }
}

}  // namespace tutti::preload
