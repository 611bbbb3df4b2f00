#include "control/plane.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/error_builder.hpp"
#include "control/topology.hpp"
#include "record.hpp"
#include "worker.hpp"

namespace tutti::control {
namespace {

// Also after a failure: the launcher kills all ranks once the first has exited, and by then all
// must have received the agreed failure and printed their messages. Together with the data links'
// own wait, the destructor stays within a second.
constexpr std::chrono::milliseconds goodbye_limit{500};

}  // namespace

Plane::Plane(rendezvous::PeerExchange exchanged, const Environment& environment, Log& log,
             Deadline setup, std::unique_ptr<ReservedThread> thread)
    : record_folder_(environment.record_folder),
      log_(log),
      clock_(setup.clock() ? setup.clock() : std::make_shared<RunningClock>()),
      worker_(std::make_unique<Worker>(*this, std::move(exchanged), environment, log)) {
  const auto expected = neighbours(peers().rank(), peers().size());
  unlinked_.insert(expected.begin(), expected.end());
  all_left_ = unlinked_.empty();
  if (!record_folder_.empty()) install_record_signal_handler();
  thread_ = std::move(thread);
  if (thread_) thread_->run([this, setup] { worker_->run(setup); });
}

Plane::~Plane() {
  if (!thread_) return;
  worker_->post([this] { worker_->say_goodbye(); });
  {
    std::unique_lock lock(mutex_);
    const auto limit = is_retired_ ? std::chrono::milliseconds(0) : goodbye_limit;
    changed_.wait_for(lock, limit, [this] { return all_left_; });
  }
  worker_->stop();
  thread_.reset();
}

const rendezvous::Peers& Plane::peers() const {
  return worker_->peers();
}

/// Waits until `holds`; false after `limit`. If this process is stopped meanwhile, its control
/// thread has received nothing, so the wait starts again.
template <class Holds>
bool Plane::wait_for(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit,
                     Holds holds) {
  // If the control thread itself hangs, no other thread reads the clock, and a single wait of
  // `limit` would look like a stop.
  constexpr std::chrono::milliseconds max_wait{100};
  static_assert(max_wait < RunningClock::longest_gap / 2);
  while (true) {
    clock_->now();
    const auto stopped = clock_->time_stopped();
    const auto end = RunningClock::Steady::now() + limit;
    for (auto now = RunningClock::Steady::now(); now < end; now = RunningClock::Steady::now()) {
      if (changed_.wait_for(lock, std::min<RunningClock::Steady::duration>(end - now, max_wait),
                            holds)) {
        return true;
      }
      clock_->now();
    }
    if (clock_->time_stopped() == stopped) return holds();
  }
}

void Plane::wait_until_linked(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return unlinked_.empty() || agreed_ || !link_failure_.empty(); };
  while (!is_over() && !deadline.expired()) {
    changed_.wait_for(lock, deadline.until_next_look(), is_over);
  }
  if (agreed_) {
    lock.unlock();
    throw agreed_error();
  }
  if (unlinked_.empty()) return;
  std::vector<std::string> missing;
  for (const int peer : unlinked_) missing.push_back(peers().describe(peer));
  const auto sentence =
      link_failure_.empty()
          ? fmt::format(
                "set-up timed out: no control link with {}; check the messages of these ranks, or "
                "raise TUTTI_TIMEOUT{}",
                fmt::join(missing, ", "), rendezvous::describe_unacknowledged_data())
          : "set-up failed: " + link_failure_;
  const int self = peers().rank();
  int lowest_linked = 0;
  while (unlinked_.contains(lowest_linked)) ++lowest_linked;
  // A dial that failed at the deadline is a timeout.
  const bool is_late = link_failure_.empty() || deadline.expired();
  throw ErrorBuilder(Error(is_late ? ErrorCode::timeout : ErrorCode::system, sentence,
                           {unlinked_.begin(), unlinked_.end()}))
      .speaks_for_job(lowest_linked == self)
      .at(peers().rank(), peers().info(peers().rank()).host.name)
      .error();
}

Error Plane::end_without_thread(const FailureReport& report, Deadline deadline) {
  worker_->post([this, report, deadline] {
    worker_->report_failure(report);
    worker_->stop_once_decided(deadline);
  });
  worker_->run(deadline);
  {
    const std::lock_guard lock(mutex_);
    if (!agreed_) agreed_ = report;
    failed_.store(true, std::memory_order_release);
  }
  return agreed_error();
}

bool Plane::is_linked_within(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, limit, [this] { return unlinked_.empty() || agreed_ || !link_failure_.empty(); });
}

Error Plane::agreed_error() const {
  FailureReport report;
  {
    const std::lock_guard lock(mutex_);
    report = agreed_.value();
  }
  std::vector<int> failed_ranks(report.failed_ranks.begin(), report.failed_ranks.end());
  for (const auto& [rank, reason] : report.lost) failed_ranks.push_back(rank);
  const auto sentence =
      report.code == ErrorCode::peer_lost ? describe_losses(peers(), report.lost) : report.sentence;
  const int self = peers().rank();
  return ErrorBuilder(Error(report.code, sentence, std::move(failed_ranks)))
      .at(self, peers().info(self).host.name)
      .speaks_for_job(speaker(report) == self)
      .error();
}

std::optional<FailureReport> Plane::agreed_failure() const {
  const std::lock_guard lock(mutex_);
  return agreed_;
}

rendezvous::PeerExchange Plane::exchange_of_survivors(const std::set<int>& gone) {
  auto taken = std::make_shared<std::promise<std::vector<rendezvous::Listener>>>();
  auto listeners = taken->get_future();
  const auto take = [this, taken] { taken->set_value(worker_->take_listeners()); };
  // Without a control thread the caller may access the listeners.
  if (thread_) {
    worker_->post(take);
  } else {
    take();
  }
  if (listeners.wait_for(std::chrono::seconds(1)) != std::future_status::ready) {
    throw Error(ErrorCode::system, "the control thread of this rank does not answer");
  }
  auto rest = peers().without(gone);
  auto self = worker_->membership();
  ++self.epoch;
  self.rank = rest.rank();
  self.size = rest.size();
  return {std::move(rest), std::move(self), listeners.get()};
}

std::map<int, LossReason> Plane::lost_ranks(bool with_departed) const {
  const std::lock_guard lock(mutex_);
  auto result = lost_;
  if (with_departed) {
    for (const int rank : departed_) result.try_emplace(rank, LossReason::has_left);
  }
  return result;
}

void Plane::write_record(const std::string& reason) const {
  if (record_folder_.empty()) return;
  const auto failure = control::write_record(record_folder_, peers(), histories(), reason);
  if (!failure.empty()) log_.warning(failure);
}

void Plane::retire() {
  const std::lock_guard lock(mutex_);
  is_retired_ = true;
}

void Plane::report(const FailureReport& report) {
  worker_->post([this, report] { worker_->report_failure(report); });
}

Error Plane::report_and_wait(const FailureReport& report, std::chrono::milliseconds limit) {
  this->report(report);
  std::unique_lock lock(mutex_);
  const auto is_decided = [this] { return agreed_.has_value(); };
  if (!wait_for(lock, limit, is_decided)) {
    // Too few ranks answer for an agreement. This rank's decision reaches the others when they
    // resume.
    lock.unlock();
    worker_->post([this, report] { worker_->decide_unilaterally(report); });
    lock.lock();
    if (!wait_for(lock, limit, is_decided)) {
      agreed_ = report;  // the control thread does not answer either
      failed_.store(true, std::memory_order_release);
      lock.unlock();
      write_record(report.sentence);
    }
  }
  if (lock.owns_lock()) lock.unlock();
  return agreed_error();
}

std::shared_ptr<CallHistory> Plane::open_history(Group group) {
  const auto id = group.id;
  auto history = std::make_shared<CallHistory>(std::move(group), !record_folder_.empty());
  const std::lock_guard lock(mutex_);
  histories_[id] = history;
  return history;
}

void Plane::close_history(std::uint32_t communicator) {
  const std::lock_guard lock(mutex_);
  histories_.erase(communicator);
}

std::shared_ptr<CallHistory> Plane::history(std::uint32_t communicator) const {
  const std::lock_guard lock(mutex_);
  const auto found = histories_.find(communicator);
  return found == histories_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<CallHistory>> Plane::histories() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CallHistory>> all;
  for (const auto& [id, history] : histories_) all.push_back(history);
  return all;
}

Activity Plane::activity_seen_from(std::uint32_t communicator) const {
  const auto own = history(communicator);
  auto activity = own ? own->activity() : Activity{};
  if (activity.in_call) return activity;
  for (const auto& other : histories()) {
    const auto theirs = other->activity();
    if (!theirs.in_call && theirs.since <= activity.since) continue;
    // Activity in another communicator, with the sequence of this one.
    const auto sequence = activity.sequence;
    activity = theirs;
    activity.sequence = sequence;
    activity.elsewhere = other != own;
    if (theirs.in_call) break;
  }
  return activity;
}

void Plane::compare_calls_with(int peer, std::uint32_t communicator) {
  worker_->post([this, peer, communicator] {
    if (const auto calls = history(communicator)) worker_->send_calls_to(peer, *calls);
  });
}

bool Plane::has_departed(int rank) const {
  const std::lock_guard lock(mutex_);
  return departed_.contains(rank);
}

std::map<int, Status> Plane::ask_statuses(std::uint32_t communicator,
                                          std::chrono::milliseconds limit) {
  const std::lock_guard alone(status_query_mutex_);
  std::unique_lock lock(mutex_);
  statuses_.clear();
  statuses_of_ = communicator;
  worker_->post([this, communicator] { worker_->ask_statuses(communicator); });
  wait_for(lock, limit, [this] {
    return statuses_.size() + departed_.size() + 1 >= static_cast<std::size_t>(peers().size()) ||
           agreed_;
  });
  return statuses_;
}

void Plane::request_data_connection(int peer, Deadline deadline) {
  worker_->post([this, peer, deadline] { worker_->dial_data(peer, deadline); });
}

std::vector<DataConnection> Plane::take_data_connections() {
  const std::lock_guard lock(mutex_);
  return std::exchange(data_connections_, {});
}

FailureReport mismatch(const rendezvous::Peers& peers, const Group& group, std::uint64_t sequence,
                       int rank, const std::optional<CallSignature>& call, int other,
                       const std::optional<CallSignature>& other_call) {
  FailureReport report{
      .code = ErrorCode::mismatch, .failed_ranks = {rank, other}, .origin = peers.rank()};
  if (!call || !other_call) {
    report.sentence = fmt::format(
        "{} and {} have made different calls, at call {} or before: all ranks must make the same "
        "collective calls in the same order",
        peers.describe(std::min(rank, other)), peers.describe(std::max(rank, other)), sequence);
    return report;
  }
  // If nothing else differs, the algorithms do.
  auto same_algorithm = *other_call;
  same_algorithm.algorithm = call->algorithm;
  const auto text = [&](const CallSignature& which) {
    const auto algorithm = same_algorithm == *call ? fmt::format(" by the algorithm {}",
                                                                 algorithm_name(which.algorithm))
                                                   : std::string();
    return describe(which, group) + algorithm;
  };
  const bool in_order = rank < other;
  report.sentence =
      fmt::format("the ranks made different calls, call {}: {} called {}, {} called {}", sequence,
                  peers.describe(in_order ? rank : other), text(in_order ? *call : *other_call),
                  peers.describe(in_order ? other : rank), text(in_order ? *other_call : *call));
  return report;
}

namespace {

std::string describe_loss(const rendezvous::Peers& peers, int rank, LossReason reason) {
  switch (reason) {
    case LossReason::process_ended:
      return "its process ended before it left the job";
    case LossReason::host_silent:
      return "its host does not respond";
    case LossReason::has_left:
      return "it has left the job";
    case LossReason::connection_closed:
      return "it closed its connections before it left the job";
    case LossReason::ports_closed:
      break;
  }
  std::vector<std::string> addresses;
  for (const auto& address : peers.info(rank).addresses) addresses.push_back(address.text());
  return fmt::format(
      "its ports refuse connections ({}): its process has ended, or these addresses belong to "
      "another host",
      fmt::join(addresses, ", "));
}

}  // namespace

std::string describe_losses(const rendezvous::Peers& peers, const std::map<int, LossReason>& lost) {
  std::vector<std::string> each;
  each.reserve(lost.size());
  for (const auto& [rank, reason] : lost) {
    each.push_back(fmt::format("{}: {}", peers.describe(rank), describe_loss(peers, rank, reason)));
  }
  return fmt::format("{} lost: {}", each.size() == 1 ? "a rank is" : "ranks are",
                     fmt::join(each, "; "));
}

}  // namespace tutti::control
