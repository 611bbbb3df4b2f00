#include "control/plane.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "base/error_builder.hpp"
#include "base/remedies.hpp"
#include "control/topology.hpp"
#include "control_thread.hpp"
#include "record.hpp"

namespace tutti::control {
namespace {

// Also after a failure: the launcher kills all ranks once the first has exited, and by then all
// must have received the agreed failure and printed their messages. Together with the data links'
// own wait, the destructor stays within a second.
constexpr std::chrono::milliseconds goodbye_limit{500};

}  // namespace

Plane::Plane(rendezvous::PeerExchange exchanged, const Environment& environment, Log& log,
             Deadline setup, std::unique_ptr<ReservedThread> thread)
    : peers_(std::move(exchanged.peers)),
      detector_(
          peers_, setup.clock() ? setup.clock() : std::make_shared<RunningClock>(), wakeup_,
          {.report =
               [this](const FailureReport& report) {
                 control_thread_->post([this, report] { control_thread_->report_failure(report); });
               },
           .decide =
               [this](const FailureReport& report) {
                 control_thread_->post(
                     [this, report] { control_thread_->decide_unilaterally(report); });
               }},
          [this](const std::string& sentence) {
            link_setup_.cancel();
            statuses_.on_change();
            recorder_->write_failure(sentence);  // if the control thread does not answer
          }),
      histories_(!environment.record_folder.empty(),
                 [this](int peer, std::uint32_t communicator) {
                   control_thread_->post([this, peer, communicator] {
                     control_thread_->send_calls_to(peer, communicator);
                   });
                 }),
      connector_(wakeup_,
                 [this](int peer, Deadline deadline) {
                   control_thread_->post([this, peer, deadline = std::move(deadline)] {
                     control_thread_->dial_data(peer, deadline);
                   });
                 }),
      statuses_(detector_, histories_, connector_.data_sockets(),
                [this](std::uint32_t communicator) {
                  control_thread_->post(
                      [this, communicator] { control_thread_->send_status_request(communicator); });
                }),
      link_setup_(neighbours(peers_.rank(), peers_.size())),
      recorder_(std::make_unique<Recorder>(environment.record_folder, peers_, histories_, log)),
      all_left_(link_setup_.is_complete()) {
  control_thread_ = std::make_unique<ControlThread>(
      ControlThread::Shared{.detector = detector_,
                            .histories = histories_,
                            .statuses = statuses_,
                            .connector = connector_,
                            .link_setup = link_setup_,
                            .recorder = *recorder_,
                            .on_all_left =
                                [this] {
                                  const std::lock_guard lock(mutex_);
                                  all_left_ = true;
                                  left_.notify_all();
                                }},
      std::move(exchanged), environment, log);
  thread_ = std::move(thread);
  if (thread_) {
    thread_->run([this, setup = std::move(setup)] { control_thread_->run(setup); });
  }
}

Plane::~Plane() {
  if (!thread_) return;
  control_thread_->post([this] { control_thread_->say_goodbye(); });
  {
    std::unique_lock lock(mutex_);
    const auto limit = is_retired_ ? std::chrono::milliseconds(0) : goodbye_limit;
    left_.wait_for(lock, limit, [this] { return all_left_; });
  }
  control_thread_->stop();
  thread_.reset();
}

void Plane::wait_until_linked(const Deadline& deadline) {
  const auto progress = link_setup_.wait(deadline);
  if (detector_.job_failed()) throw detector_.agreed_error();
  if (progress.missing.empty()) return;
  // A dial that failed at the deadline is a timeout.
  fail_setup(progress, progress.failure.empty() || deadline.expired());
}

void Plane::fail_setup(const LinkSetup::Progress& progress, bool is_late) const {
  std::vector<std::string> missing;
  for (const int peer : progress.missing) missing.push_back(peers_.describe(peer));
  const auto sentence =
      progress.failure.empty()
          ? fmt::format(
                "set-up timed out: no control connection with {}; see the messages of these "
                "ranks, or {}{}",
                fmt::join(missing, ", "), longer_timeout_remedy,
                rendezvous::describe_unacknowledged_data())
          : "set-up failed: " + progress.failure;
  const int self = peers_.rank();
  int lowest_linked = 0;
  while (progress.missing.contains(lowest_linked)) ++lowest_linked;
  throw ErrorBuilder(Error(is_late ? ErrorCode::timeout : ErrorCode::system, sentence,
                           {progress.missing.begin(), progress.missing.end()}))
      .speaks_for_job(lowest_linked == self)
      .at(self, peers_.info(self).host.name)
      .error();
}

Error Plane::end_without_thread(const FailureReport& report, Deadline deadline) {
  control_thread_->post([this, report, deadline] {
    control_thread_->report_failure(report);
    control_thread_->stop_once_decided(deadline);
  });
  control_thread_->run(deadline);
  if (!detector_.job_failed()) detector_.on_decision(report);
  return detector_.agreed_error();
}

rendezvous::PeerExchange Plane::exchange_of_survivors(const std::set<int>& gone) {
  auto taken = std::make_shared<std::promise<std::vector<rendezvous::Listener>>>();
  auto listeners = taken->get_future();
  const auto take = [this, taken] { taken->set_value(control_thread_->take_listeners()); };
  // Without a control thread the caller may access the listeners.
  if (thread_) {
    control_thread_->post(take);
  } else {
    take();
  }
  if (listeners.wait_for(std::chrono::seconds(1)) != std::future_status::ready) {
    throw Error(ErrorCode::system, "the control thread of this rank does not answer");
  }
  auto rest = peers_.without(gone);
  auto self = control_thread_->membership();
  ++self.epoch;
  self.rank = rest.rank();
  self.size = rest.size();
  return {std::move(rest), std::move(self), listeners.get(), control_thread_->sources()};
}

}  // namespace tutti::control
