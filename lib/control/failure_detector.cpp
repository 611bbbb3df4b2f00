#include "control/failure_detector.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "base/error_builder.hpp"
#include "wait_while_running.hpp"

namespace tutti::control {
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

/// The sentence for an agreed failure of lost ranks.
std::string describe_losses(const rendezvous::Peers& peers, const std::map<int, LossReason>& lost) {
  std::vector<std::string> each;
  each.reserve(lost.size());
  for (const auto& [rank, reason] : lost) {
    each.push_back(fmt::format("{}: {}", peers.describe(rank), describe_loss(peers, rank, reason)));
  }
  return fmt::format("{} lost: {}", each.size() == 1 ? "a rank is" : "ranks are",
                     fmt::join(each, "; "));
}

}  // namespace

FailureDetector::FailureDetector(const rendezvous::Peers& peers,
                                 std::shared_ptr<RunningClock> clock, const Wakeup& wakeup,
                                 Requests requests,
                                 std::function<void(const std::string&)> on_failure)
    : peers_(peers),
      clock_(std::move(clock)),
      wakeup_(wakeup),
      requests_(std::move(requests)),
      on_failure_(std::move(on_failure)) {}

Error FailureDetector::agreed_error() const {
  FailureReport report;
  {
    const std::lock_guard lock(mutex_);
    report = agreed_.value();
  }
  return error_of(report);
}

Error FailureDetector::error_of(const FailureReport& report) const {
  std::vector<int> failed_ranks(report.failed_ranks.begin(), report.failed_ranks.end());
  for (const auto& [rank, reason] : report.lost) failed_ranks.push_back(rank);
  const auto sentence =
      report.code == ErrorCode::peer_lost ? describe_losses(peers_, report.lost) : report.sentence;
  const int self = peers_.rank();
  return ErrorBuilder(Error(report.code, sentence, std::move(failed_ranks)))
      .at(self, peers_.info(self).host.name)
      .speaks_for_job(speaker(report) == self)
      .error();
}

std::optional<FailureReport> FailureDetector::agreed_failure() const {
  const std::lock_guard lock(mutex_);
  return agreed_;
}

std::map<int, LossReason> FailureDetector::lost_ranks(bool with_departed) const {
  const std::lock_guard lock(mutex_);
  auto result = lost_;
  if (with_departed) {
    for (const int rank : departed_) result.try_emplace(rank, LossReason::has_left);
  }
  return result;
}

bool FailureDetector::has_departed(int rank) const {
  const std::lock_guard lock(mutex_);
  return departed_.contains(rank);
}

std::size_t FailureDetector::departed_count() const {
  const std::lock_guard lock(mutex_);
  return departed_.size();
}

void FailureDetector::report(const FailureReport& report) {
  requests_.report(report);
}

Error FailureDetector::report_and_wait(const FailureReport& report,
                                       std::chrono::milliseconds limit) {
  this->report(report);
  const auto is_decided_in_time = [&] {
    std::unique_lock lock(mutex_);
    return wait_while_running(changed_, lock, limit, *clock_,
                              [this] { return agreed_.has_value(); });
  };
  if (!is_decided_in_time()) {
    // Too few ranks answer for an agreement. This rank's decision reaches the others when they
    // resume.
    requests_.decide(report);
    // If the control thread does not answer either, this thread enters the failure.
    if (!is_decided_in_time()) on_decision(report);
  }
  return agreed_error();
}

void FailureDetector::on_decision(const FailureReport& report) {
  {
    const std::lock_guard lock(mutex_);
    if (!agreed_) agreed_ = report;
    failed_.store(true, std::memory_order_release);
    changed_.notify_all();
    wakeup_.signal();
  }
  on_failure_(agreed_error().sentence());
}

void FailureDetector::on_departure(int rank) {
  const std::lock_guard lock(mutex_);
  departed_.insert(rank);
  wakeup_.signal();
}

void FailureDetector::set_lost(const std::map<int, LossReason>& lost) {
  const std::lock_guard lock(mutex_);
  lost_ = lost;
}

}  // namespace tutti::control
