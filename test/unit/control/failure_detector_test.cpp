// Agreed failure, reports and departures, without a control thread.
#include "control/failure_detector.hpp"

#include <poll.h>

#include "job_peers.hpp"
#include "support/catch.hpp"

namespace tutti::control::test {

using namespace std::chrono_literals;

namespace {

bool is_readable(const Wakeup& wakeup) {
  pollfd poll{wakeup.fd(), POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
}

FailureReport abort_by(int rank, const std::string& sentence) {
  return {.code = ErrorCode::aborted, .failed_ranks = {rank}, .sentence = sentence, .origin = rank};
}

/// The detector of rank 1 of 3, whose control thread is what the test makes of it.
struct Scene {
  rendezvous::Peers peers = job_peers(1, 3);
  Wakeup wakeup;
  std::function<void(const FailureReport&)> on_report = [](const FailureReport&) {};
  std::function<void(const FailureReport&)> on_decide = [](const FailureReport&) {};
  std::vector<std::string> failures;
  FailureDetector detector{peers,
                           std::make_shared<RunningClock>(),
                           wakeup,
                           {.report = [this](const FailureReport& report) { on_report(report); },
                            .decide = [this](const FailureReport& report) { on_decide(report); }},
                           [this](const std::string& sentence) { failures.push_back(sentence); }};
};

}  // namespace

TEST_CASE("an agreed failure is entered once, wakes the links and is thrown as an error") {
  Scene scene;
  CHECK_FALSE(scene.detector.job_failed());
  CHECK_FALSE(scene.detector.agreed_failure());
  CHECK_FALSE(is_readable(scene.wakeup));
  scene.detector.on_decision(abort_by(2, "rank 2 has ended the job"));
  CHECK(scene.detector.job_failed());
  CHECK(is_readable(scene.wakeup));
  CHECK(scene.failures == std::vector<std::string>{"rank 2 has ended the job"});
  const auto error = scene.detector.agreed_error();
  CHECK(error.code() == ErrorCode::aborted);
  CHECK(error.sentence() == "rank 2 has ended the job");
  CHECK(error.failed_ranks() == std::vector{2});

  scene.detector.on_decision(abort_by(0, "a later failure"));
  CHECK(scene.detector.agreed_error().sentence() == "rank 2 has ended the job");
}

TEST_CASE("the error of lost ranks names each with the reason") {
  Scene scene;
  scene.detector.on_decision(
      {.code = ErrorCode::peer_lost,
       .lost = {{0, LossReason::process_ended}, {2, LossReason::host_silent}},
       .origin = 1});
  const auto error = scene.detector.agreed_error();
  CHECK(error.sentence() ==
        "ranks are lost: rank 0 (n1, pid 100): its process ended before it left the job; rank 2 "
        "(n3, pid 100): its host does not respond");
  CHECK(error.failed_ranks() == std::vector{0, 2});
  CHECK(error.speaks_for_job());  // rank 1 is the lowest that lives
}

TEST_CASE("report_and_wait() returns what the ranks agree on, which may be another failure") {
  Scene scene;
  std::optional<FailureReport> reported;
  scene.on_report = [&](const FailureReport& report) {
    reported = report;
    scene.detector.on_decision(abort_by(0, "agreed"));
  };
  scene.on_decide = [](const FailureReport&) { FAIL("there was an agreement"); };
  const auto own = abort_by(1, "own");
  CHECK(scene.detector.report_and_wait(own, 10s).sentence() == "agreed");
  CHECK(reported == own);
}

TEST_CASE("without an agreement the control thread decides alone") {
  Scene scene;
  scene.on_decide = [&](const FailureReport& report) { scene.detector.on_decision(report); };
  CHECK(scene.detector.report_and_wait(abort_by(1, "own"), 20ms).sentence() == "own");
  CHECK(scene.failures.size() == 1);
}

TEST_CASE("report_and_wait() returns even if the control thread hangs") {
  // Longer than the gap that a RunningClock takes for a stop of the process: the control thread,
  // which would read the clock meanwhile, does not.
  constexpr auto limit = RunningClock::longest_gap + 200ms;
  Scene scene;
  const auto start = std::chrono::steady_clock::now();
  CHECK(scene.detector.report_and_wait(abort_by(1, "own"), limit).sentence() == "own");
  // Two limits. The factor allows for a busy machine.
  CHECK(std::chrono::steady_clock::now() - start < 10 * limit);
  CHECK(scene.detector.job_failed());
  CHECK(is_readable(scene.wakeup));
  CHECK(scene.failures == std::vector<std::string>{"own"});
  // A late answer of the control thread changes nothing.
  scene.detector.on_decision(abort_by(2, "late"));
  CHECK(scene.detector.agreed_error().sentence() == "own");
}

TEST_CASE("departed ranks are not lost, but listed with them on request") {
  Scene scene;
  CHECK(scene.detector.departed_count() == 0);
  scene.detector.on_departure(2);
  CHECK(is_readable(scene.wakeup));
  CHECK(scene.detector.has_departed(2));
  CHECK_FALSE(scene.detector.has_departed(0));
  CHECK(scene.detector.departed_count() == 1);
  CHECK_FALSE(scene.detector.job_failed());

  scene.detector.set_lost({{0, LossReason::connection_closed}});
  CHECK(scene.detector.lost_ranks(false) ==
        std::map<int, LossReason>{{0, LossReason::connection_closed}});
  CHECK(scene.detector.lost_ranks(true) ==
        std::map<int, LossReason>{{0, LossReason::connection_closed}, {2, LossReason::has_left}});
}

}  // namespace tutti::control::test
