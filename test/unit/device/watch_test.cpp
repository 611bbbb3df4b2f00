// The thread that ends calls which are blocked inside NCCL.
#include "device/watch.hpp"

#include <mutex>

#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using namespace std::chrono_literals;

/// What the watch was told and did.
struct Record {
  std::atomic<bool> verdict{false};
  std::atomic<bool> aborted{false};
  std::atomic<bool> stuck{false};
  std::atomic<std::int64_t> late{0};

  [[nodiscard]] Watch::Actions actions() {
    return {.failed = [this] { return verdict.load(); },
            .late =
                [this](std::chrono::nanoseconds timeout) {
                  late = timeout.count();
                  verdict = true;
                },
            .abort = [this] { aborted = true; },
            .stuck = [this] { stuck = true; }};
  }
};

constexpr Watch::Times fast{.tick = 10ms, .return_limit = 50ms};

/// False if it does not become true within seconds.
bool soon(const std::atomic<bool>& flag) {
  for (int i = 0; i < 5000 && !flag; ++i) std::this_thread::sleep_for(1ms);
  return flag;
}

}  // namespace

TEST_CASE("calls that return in time are let through") {
  Record record;
  Watch watch(record.actions(), fast, std::make_unique<ReservedThread>(Watch::purpose));
  for (int i = 0; i < 200; ++i) {
    const Watch::Inside inside(watch, 50ms);
    CHECK(inside.open());
    std::this_thread::sleep_for(i % 10 == 0 ? 2ms : 0ms);
  }
  CHECK(!record.aborted);
  CHECK(record.late == 0);
}

TEST_CASE("a call that stays inside for its whole time is late, and NCCL's work is ended") {
  Record record;
  Watch watch(record.actions(), fast, std::make_unique<ReservedThread>(Watch::purpose));
  const auto start = std::chrono::steady_clock::now();
  {
    const Watch::Inside inside(watch, 100ms);
    REQUIRE(soon(record.aborted));
  }
  CHECK(std::chrono::steady_clock::now() - start >= 100ms);
  CHECK(record.late == std::chrono::nanoseconds(100ms).count());
  const Watch::Inside next(watch, 100ms);
  CHECK(!next.open());
}

TEST_CASE("at a verdict a blocked call is ended at once, and told of where it does not return") {
  Record record;
  Watch watch(record.actions(), fast, std::make_unique<ReservedThread>(Watch::purpose));
  const Watch::Inside inside(watch, 60s);
  std::this_thread::sleep_for(30ms);
  CHECK(!record.aborted);
  record.verdict = true;
  CHECK(soon(record.aborted));
  CHECK(soon(record.stuck));
}

TEST_CASE("work that is queued is ended at a verdict, though no call is inside") {
  Record record;
  Watch watch(record.actions(), fast, std::make_unique<ReservedThread>(Watch::purpose));
  { const Watch::Inside inside(watch, 60s); }
  std::this_thread::sleep_for(30ms);
  record.verdict = true;
  CHECK(soon(record.aborted));
  CHECK(!record.stuck);
}

TEST_CASE("at rest nothing is looked at, and the next call wakes it") {
  Record record;
  std::atomic<int> looks{0};
  auto actions = record.actions();
  actions.failed = [&] {
    ++looks;
    return record.verdict.load();
  };
  Watch watch(std::move(actions), fast, std::make_unique<ReservedThread>(Watch::purpose));
  { const Watch::Inside inside(watch, 60s); }
  watch.rest();
  std::this_thread::sleep_for(100ms);
  const int before = looks;
  std::this_thread::sleep_for(200ms);
  CHECK(looks == before);
  record.verdict = true;
  const Watch::Inside inside(watch, 60s);
  CHECK(soon(record.aborted));
}

}  // namespace tutti::device::test
