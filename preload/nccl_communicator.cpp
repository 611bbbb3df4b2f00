#include "nccl_communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "device/inventory.hpp"
#include "direct/image.hpp"

namespace tutti::preload {

NcclCommunicator::NcclCommunicator(Parts parts)
    : parts_(std::move(parts)),
      log_(parts_.log_level, nullptr),
      watch_(parts_.timeout, CallWatch::Clock::now()) {
  log_.set_rank(parts_.who.rank);
  if (!has_path()) {
    log_.info(fmt::format("NCCL takes all calls on a communicator of {} ranks: {}", who().size,
                          no_path_because()));
    return;
  }
  try {
    const device::CurrentContext current(*parts_.opened.context);
    order_ = std::make_unique<StreamOrder>(parts_.opened.context, *parts_.opened.path);
  } catch (const Error& error) {
    fail(error.sentence());
    return;
  }
  log_.info(fmt::format("a communicator of {} ranks has a direct path between GPUs", who().size));
}

NcclCommunicator::~NcclCommunicator() {
  order_.reset();
  parts_.opened.path.reset();
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

NcclResult NcclCommunicator::serve(const NcclCall& call) {
  const std::lock_guard lock(mutex_);
  if (failure() != nullptr) return nccl_remote_error;
  counts_.add_served(call.kind);
  parts_.opened.segment->publish(call);
  auto result = device::cuda_success;
  try {
    const device::CurrentContext current(*parts_.opened.context);
    result = order_->before(call.stream);
    // watch() looks at it although it isn't queued yet.
    if (order_->is_in_graph()) has_captured_ = true;
    if (result == device::cuda_success) {
      const auto translated = *translate(call, who().rank, who().size);
      const auto protocol = *parts_.opened.path->protocol_of(translated);
      result = parts_.opened.path->queue(translated, protocol, call.stream);
    }
    order_->after_served(call.stream);
    if (!order_->is_in_graph()) ++made_;
  } catch (const std::exception& error) {
    fail(fmt::format("{} failed: {}", latest_call(), error.what()));
    return nccl_unhandled_cuda_error;
  }
  if (result == device::cuda_success) return device::nccl_success;
  fail(fmt::format("{} failed: {}", latest_call(), device::cuda_error_text(cuda(), result)));
  return nccl_unhandled_cuda_error;
}

void NcclCommunicator::before_handed_on(const NcclCall& call, Obstacle obstacle) {
  counts_.add_handed_on(call.kind, obstacle);
  if (order_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  parts_.opened.segment->publish(call);
  is_handing_on_ = true;
  const auto result = order_->before(call.stream);
  if (result != device::cuda_success) {
    fail(fmt::format("{} could not be ordered after earlier calls: {}", latest_call(),
                     device::cuda_error_text(cuda(), result)));
  }
  if (!order_->is_in_graph()) ++made_;
}

void NcclCommunicator::after_handed_on(CudaStream stream, NcclResult result) {
  if (order_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (result == device::nccl_in_progress) {
    due_on_ = stream;
    is_due_ = true;
  } else {
    order_->after_handed_on(stream);
  }
  is_handing_on_ = false;
}

void NcclCommunicator::after_progress() {
  // Another thread may hold the mutex while it waits for room in a stream.
  if (!is_due_) return;
  const std::lock_guard lock(mutex_);
  if (!is_due_) return;
  order_->after_handed_on(due_on_);
  is_due_ = false;
}

void NcclCommunicator::abort() noexcept {
  if (!has_path()) return;
  static const std::string aborted = "the program has aborted the communicator";
  const std::string* none = nullptr;
  failure_.compare_exchange_strong(none, &aborted);
  parts_.opened.path->abort();
}

void NcclCommunicator::leave() noexcept {
  if (has_path()) parts_.opened.segment->leave();
}

void NcclCommunicator::fail(const std::string& sentence) {
  // Never freed: ncclGetLastError gives it to the program.
  auto text = std::make_unique<const std::string>(sentence);
  const std::string* none = nullptr;
  if (!failure_.compare_exchange_strong(none, text.get())) return;
  static_cast<void>(text.release());
  has_failed_ = true;
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

/// Those that have not left in order, if there are some.
std::string NcclCommunicator::ended_ranks() const {
  std::vector<std::string> texts;
  const bool has_lost = has_lost_rank();
  for (const int rank : parts_.opened.processes->ended()) {
    if (has_lost && parts_.opened.segment->has_left(rank)) continue;
    texts.push_back(parts_.opened.peers->describe(rank));
  }
  return fmt::format("{} {} ended", fmt::join(texts, " and "), texts.size() == 1 ? "has" : "have");
}

bool NcclCommunicator::has_lost_rank() const {
  const auto& ended = parts_.opened.processes->ended();
  return std::any_of(ended.begin(), ended.end(),
                     [&](int rank) { return !parts_.opened.segment->has_left(rank); });
}

SeenCalls NcclCommunicator::look_at_calls(bool has_open) {
  const auto made = made_.load();
  const auto progress = parts_.opened.path->progress();
  SeenCalls seen;
  seen.has_open_at_nccl = is_handing_on_ || is_due_ || !order_->are_handed_on_complete();
  seen.has_answered = progress.has_value();
  seen.has_ended_rank = !parts_.opened.processes->ended().empty();
  seen.has_lost_rank = has_lost_rank();
  if (progress) {
    seen.ended = progress->rounds + order_->handed_on_ended();
    seen.waits = progress->waits;
    if (progress->all_done && !seen.has_open_at_nccl) complete_ = made;
  }
  seen.has_open = has_open && complete_ != made;
  return seen;
}

void NcclCommunicator::watch() {
  constexpr int looks_a_second = 10;
  if (order_ == nullptr || failure() != nullptr) return;
  const bool has_ended_rank = parts_.opened.processes->look();
  if (!has_ended_rank && ++looks_ % looks_a_second != 0) return;
  const auto now = CallWatch::Clock::now();
  const bool has_open = made_ != complete_;
  if (!has_open && !has_captured_) return watch_.rest(now);
  const device::CurrentContext current(*parts_.opened.context);
  const auto seen = look_at_calls(has_open);
  switch (watch_.look(now, seen)) {
    case CallWatch::Verdict::none:
      break;
    case CallWatch::Verdict::late:
      log_.warning(fmt::format("{} has not returned for {:.0f} s: {}", latest_call(),
                               std::chrono::duration<double>(watch_.open_for(now)).count(),
                               missing_ranks()));
      break;
    case CallWatch::Verdict::lost:
      fail(seen.has_open
               ? fmt::format("{} does not return: {}", latest_call(), ended_ranks())
               : fmt::format("graphs with calls of a communicator of {} ranks can't run: {}",
                             who().size, ended_ranks()));
      break;
  }
}

}  // namespace tutti::preload
