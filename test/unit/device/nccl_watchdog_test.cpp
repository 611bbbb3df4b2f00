// The watchdog, which ends calls that are blocked inside NCCL.
#include "device/nccl_watchdog.hpp"

#include <mutex>

#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using namespace std::chrono_literals;

/// Records the watchdog's actions.
struct Record {
  std::atomic<bool> failed{false};
  std::atomic<bool> aborted{false};
  std::atomic<bool> stuck{false};
  std::atomic<std::int64_t> late{0};

  [[nodiscard]] NcclWatchdog::Actions actions() {
    return {.failed = [this] { return failed.load(); },
            .on_timeout =
                [this](std::chrono::nanoseconds timeout) {
                  late = timeout.count();
                  failed = true;
                },
            .abort = [this] { aborted = true; },
            .on_stuck = [this] { stuck = true; }};
  }
};

constexpr NcclWatchdog::Times fast{.interval = 10ms, .settle_limit = 10ms, .return_limit = 50ms};

/// Returns false unless it becomes true within seconds.
bool soon(const std::atomic<bool>& flag) {
  for (int i = 0; i < 5000 && !flag; ++i) std::this_thread::sleep_for(1ms);
  return flag;
}

}  // namespace

TEST_CASE("calls that return in time are not disturbed") {
  Record record;
  NcclWatchdog watch(record.actions(), fast,
                     std::make_unique<ReservedThread>(NcclWatchdog::purpose));
  for (int i = 0; i < 200; ++i) {
    const NcclWatchdog::ActiveCall inside(watch, 50ms);
    CHECK(inside.may_call());
    std::this_thread::sleep_for(i % 10 == 0 ? 2ms : 0ms);
  }
  CHECK(!record.aborted);
  CHECK(record.late == 0);
}

TEST_CASE("a call active for its whole timeout is reported, and NCCL's work is aborted") {
  Record record;
  NcclWatchdog watch(record.actions(), fast,
                     std::make_unique<ReservedThread>(NcclWatchdog::purpose));
  const auto start = std::chrono::steady_clock::now();
  {
    const NcclWatchdog::ActiveCall inside(watch, 100ms);
    REQUIRE(soon(record.aborted));
  }
  CHECK(std::chrono::steady_clock::now() - start >= 100ms);
  CHECK(record.late == std::chrono::nanoseconds(100ms).count());
  const NcclWatchdog::ActiveCall next(watch, 100ms);
  CHECK(!next.may_call());
}

TEST_CASE("after a failure a blocked call is aborted at once, and reported if it does not return") {
  Record record;
  NcclWatchdog watch(record.actions(), fast,
                     std::make_unique<ReservedThread>(NcclWatchdog::purpose));
  const NcclWatchdog::ActiveCall inside(watch, 60s);
  std::this_thread::sleep_for(30ms);
  CHECK(!record.aborted);
  record.failed = true;
  CHECK(soon(record.aborted));
  CHECK(soon(record.stuck));
}

TEST_CASE("queued work is aborted after a failure, without an active call") {
  Record record;
  NcclWatchdog watch(record.actions(), fast,
                     std::make_unique<ReservedThread>(NcclWatchdog::purpose));
  { const NcclWatchdog::ActiveCall inside(watch, 60s); }
  std::this_thread::sleep_for(30ms);
  record.failed = true;
  CHECK(soon(record.aborted));
  CHECK(!record.stuck);
}

TEST_CASE("when idle the watchdog sleeps, and the next call wakes it") {
  Record record;
  std::atomic<int> looks{0};
  auto actions = record.actions();
  actions.failed = [&] {
    ++looks;
    return record.failed.load();
  };
  NcclWatchdog watch(std::move(actions), fast,
                     std::make_unique<ReservedThread>(NcclWatchdog::purpose));
  { const NcclWatchdog::ActiveCall inside(watch, 60s); }
  watch.set_idle();
  std::this_thread::sleep_for(100ms);
  const int before = looks;
  std::this_thread::sleep_for(200ms);
  CHECK(looks == before);
  record.failed = true;
  const NcclWatchdog::ActiveCall inside(watch, 60s);
  CHECK(soon(record.aborted));
}

}  // namespace tutti::device::test
