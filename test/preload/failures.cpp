// Checks with ranks that can't, come late, leave or die.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "checks.hpp"
#include "gpu/graph.hpp"

namespace tutti::preload_test {

using namespace std::chrono_literals;

/// Rank 1 can't have a direct path, which the others learn.
std::string mixed(Rank& rank) {
  if (rank.rank() == 1) ::setenv("TUTTI_DEVICE_PATH", "nccl", 1);
  DeviceMemory memory(rank.rank());
  const NcclComm comm(rank);
  require(run(comm, memory, {.count = 100}, 1));
  require(run(comm, memory, {.kind = Kind::bcast, .count = 100}, 2));
  return "done";
}

/// Rank 1 comes late.
std::string late(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const NcclComm comm(rank);
  require(run(comm, memory, {.kind = Kind::broadcast, .count = 10}, 1));
  if (rank.rank() == 1) std::this_thread::sleep_for(4s);
  require(run(comm, memory, {.count = 1234}, 2));
  return "done";
}

/// The program aborts a call that never ends.
std::string abort_call(Rank& rank) {
  DeviceMemory memory(rank.rank());
  NcclComm comm(rank);
  DeviceBuffer buffer(memory, 4000);
  require(run(comm, memory, {.count = 10}, 1));
  if (rank.rank() == 0) {
    check(ncclAllReduce(buffer.data(), buffer.data(), 1000, f32, nccl_sum, comm.handle(),
                        memory.stream()),
          "ncclAllReduce");
    std::this_thread::sleep_for(300ms);
    check(ncclCommAbort(comm.release()), "ncclCommAbort");
    synchronize(memory.stream());
  }
  rank.bootstrap().barrier(Deadline::after(60s));
  if (rank.rank() != 0) check(ncclCommAbort(comm.release()), "ncclCommAbort");
  return "done";
}

/// Ends normally, without destroying its communicator, while the call of rank 0, which needs what
/// it has sent, is behind other work.
std::string leave(Rank& rank) {
  DeviceMemory memory(rank.rank());
  NcclComm comm(rank);
  DeviceBuffer buffer(memory, 4000);
  upload(buffer, std::vector<std::int32_t>(1000, rank.rank()));
  if (rank.rank() == 0) hold_up(memory.stream());
  check(ncclBroadcast(buffer.data(), buffer.data(), 1000, i32, 1, comm.handle(), memory.stream()),
        "ncclBroadcast");
  synchronize(memory.stream());
  expect_all(buffer, 1, "after the root's end");
  void* const handle = comm.release();
  int error = 0;
  check(ncclCommGetAsyncError(handle, &error), "ncclCommGetAsyncError");
  check(error, "after the root's end, the communicator");
  return "done";
}

/// The others end normally when rank 0 needs them no more: all calls are complete, one in a graph.
std::string leave_after_graph(Rank& rank) {
  DeviceMemory memory(rank.rank());
  NcclComm comm(rank);
  DeviceBuffer buffer(memory, 4000);
  upload(buffer, std::vector<float>(1000, 1));
  const auto all_reduce = [&] {
    check(ncclAllReduce(buffer.data(), buffer.data(), 1000, f32, nccl_sum, comm.handle(),
                        memory.stream()),
          "ncclAllReduce");
  };
  all_reduce();
  gpu_test::Capture capture(memory.stream());
  all_reduce();
  capture.end();
  capture.replay();
  synchronize(memory.stream());
  const auto n = static_cast<float>(rank.size());
  expect_all(buffer, n * n, "after a replay");
  void* const handle = comm.release();
  if (rank.rank() != 0) return "done";
  std::this_thread::sleep_for(4s);
  int error = 0;
  check(ncclCommGetAsyncError(handle, &error), "ncclCommGetAsyncError");
  check(error, "after the others' end, the communicator");
  return "done";
}

namespace {

std::string loop_until_killed(Rank& rank, bool in_graph) {
  DeviceMemory memory(rank.rank());
  NcclComm comm(rank);
  DeviceBuffer buffer(memory, 40000);
  const auto all_reduce = [&] {
    return ncclAllReduce(buffer.data(), buffer.data(), 10000, f32, nccl_sum, comm.handle(),
                         memory.stream());
  };
  std::optional<gpu_test::Capture> capture;
  if (in_graph) {
    capture.emplace(memory.stream());
    check(all_reduce(), "ncclAllReduce");
    capture->end();
  }
  while (true) {
    if (in_graph) {
      capture->replay();
    } else if (all_reduce() != 0) {
      break;
    }
    synchronize(memory.stream());
    int error = 0;
    check(ncclCommGetAsyncError(comm.handle(), &error), "ncclCommGetAsyncError");
    if (error != 0) break;
    rank.mark();
  }
  capture.reset();
  std::string said = ncclGetLastError(comm.handle());
  if (in_graph) {
    // What had no result is not forgotten.
    constexpr int remote_error = 6;
    const int result = ncclCommDestroy(comm.release());
    if (result != remote_error) return fmt::format("ncclCommDestroy returned {}", result);
  } else {
    check(ncclCommAbort(comm.release()), "ncclCommAbort");
  }
  return said;
}

}  // namespace

std::string check_killed(int ranks, bool in_graph) {
  test::Job job(ranks, [&](Rank& rank) { return loop_until_killed(rank, in_graph); });
  const auto what = in_graph ? "graphs with calls" : "ncclAllReduce of 10000 f32";
  job.await_marks_of_all(10, 60s);
  const auto killed = job.signal(1, SIGKILL);
  const auto reports = job.finish(30s);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (rank == 1) continue;
    const auto& report = reports[rank];
    if (!report.finished || report.text.find("rank 1 (") == std::string::npos ||
        report.text.find(what) == std::string::npos) {
      return test::describe(reports);
    }
    const auto took = report.ended - killed;
    if (took > 8s) return fmt::format("rank {} returned after {:.1f} s", rank, test::seconds(took));
  }
  return {};
}

}  // namespace tutti::preload_test
