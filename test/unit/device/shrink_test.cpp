// After a loss the survivors continue with device memory: with a new NCCL communicator, or staged.
#include <fmt/format.h>

#include <csignal>
#include <optional>

#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using tutti::test::Job;

/// All ranks derive their inputs from the seed, so it must be the same on all.
void check_some(Communicator& communicator, DeviceMemory& memory) {
  std::uint64_t seed = 1;
  for (const auto operation : {Operation::all_reduce, Operation::broadcast, Operation::all_gather,
                               Operation::reduce_scatter, Operation::all_to_all}) {
    for (const bool started : {false, true}) {
      const auto wrong =
          gpu_test::check(communicator, memory,
                          {.operation = operation, .started = started, .count = 1000}, ++seed);
      expect(wrong.empty(), wrong);
    }
  }
  const auto wrong = gpu_test::check_messages(communicator, memory, {1, 1000});
  expect(wrong.empty(), wrong);
}

/// Loops until ranks are lost, then continues with the rest; repeats after further losses.
std::string lose_and_go_on(Rank& rank, const Options& options, int left_at_last) {
  auto& first = rank.communicator(options);
  DeviceMemory memory(first.device());
  const int device = first.device();
  Communicator* now = &first;
  std::optional<Communicator> rest;
  while (true) {
    try {
      check_some(*now, memory);
      if (now->size() == left_at_last) break;
      while (true) {
        const auto wrong = gpu_test::check(*now, memory, {.count = 1000}, 7);
        expect(wrong.empty(), wrong);
        rank.mark();
      }
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::peer_lost, error.sentence());
    }
    auto next = now->shrink();
    expect(next.device() == device, "another device");
    rest.emplace(std::move(next));
    now = &*rest;
    rank.stamp();
  }
  auto half = now->split(now->rank() % 2, 0);
  check_some(*half, memory);
  half.reset();
  now->finalize();
  return fmt::format("{} of {}", now->rank(), now->size());
}

}  // namespace

TEST_CASE("after each loss the survivors use NCCL again") {
  const SharedSegment segment;
  Job job(5, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    set("FAKE_GPU_DEVICES", "8");
    const auto text = lose_and_go_on(rank, {.timeout = 20s, .backend = BackendChoice::nccl}, 3);
    // Three set-ups of all that were left: the job's, and one after each loss.
    const auto trace = nccl_trace();
    for (const auto* each : {"init 5 ", "init 4 ", "init 3 "}) {
      expect(trace.find(each) != std::string::npos, "no NCCL communicator of: " + (each + trace));
    }
    return text;
  });
  job.await_marks_of_all(3);
  job.signal(1, SIGKILL);
  const auto before = job.marks(0);
  job.await_marks(0, before + 5);
  job.signal(3, SIGKILL);
  const auto reports = job.finish(60s);
  INFO(tutti::test::describe(reports));
  CHECK(reports[0].text == "0 of 3");
  CHECK(reports[2].text == "1 of 3");
  CHECK(reports[4].text == "2 of 3");
}

TEST_CASE("after a loss buffers in device memory are staged as before") {
  const SharedSegment segment;
  Job job(3, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    set("FAKE_GPU_MIG", "1");
    return lose_and_go_on(rank, {.timeout = 20s, .log = [](LogLevel, const std::string&) {}}, 2);
  });
  job.await_marks_of_all(3);
  job.signal(0, SIGKILL);
  const auto reports = job.finish(60s);
  INFO(tutti::test::describe(reports));
  CHECK(reports[1].text == "0 of 2");
  CHECK(reports[2].text == "1 of 2");
}

TEST_CASE("the reason of staging stays the same if it is reported only after a loss") {
  Job job(3, [&](Rank& rank) -> std::string {
    set("FAKE_GPU_MIG", "1");
    std::string messages;
    auto& first = rank.communicator(
        {.timeout = 20s, .log = [&](LogLevel, const std::string& line) { messages += line; }});
    DeviceMemory memory(first.device());
    try {
      while (true) {
        first.barrier();
        rank.mark();
      }
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::peer_lost, error.sentence());
    }
    auto rest = first.shrink();
    const auto wrong = gpu_test::check(rest, memory, {.count = 1000}, 7);
    expect(wrong.empty(), wrong);
    rest.finalize();
    return messages;
  });
  job.await_marks_of_all(3);
  job.signal(2, SIGKILL);
  const auto reports = job.finish(60s);
  INFO(tutti::test::describe(reports));
  const std::string_view staged = "staged through host memory";
  const auto& messages = reports[0].text;
  const auto at = messages.find(staged);
  REQUIRE(at != std::string::npos);
  CHECK(messages.find(staged, at + 1) == std::string::npos);
}

}  // namespace tutti::device::test
