// An NCCL program that checks its results: nccl_check RANKS CHECK…, one process and one device for
// each rank. It knows nothing of tutti's preload, so it runs with and without it (LD_PRELOAD).
// Prints a line for each check. Exit status 1 if one fails. It is a function, since a program may
// also load NCCL with a plugin, as Python does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "device/nccl_numbers.hpp"
#include "gpu/graph.hpp"
#include "nccl_program.hpp"
#include "timing.hpp"

namespace tutti::preload_test {
namespace {

using namespace std::chrono_literals;
using test::expect;
using test::Report;

constexpr int f32 = 7;
constexpr int i32 = 2;
constexpr int nccl_sum = 0;
constexpr int nccl_average = 4;

void require(const std::string& wrong) {
  expect(wrong.empty(), wrong);
}

template <class T>
void upload(DeviceBuffer& buffer, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  buffer.upload(bytes);
}

template <class T>
void expect_all(const DeviceBuffer& buffer, T due, const std::string& what) {
  const auto bytes = buffer.download();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T found{};
    std::memcpy(&found, bytes.data() + at, sizeof found);
    expect(found == due,
           fmt::format("{}: element {} is {}, due is {}", what, at / sizeof(T), found, due));
  }
}

/// Every call, small and large, in place and not.
std::string calls(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const NcclComm comm(rank);
  std::uint64_t seed = 0;
  for (const std::size_t count : {1, 33, 5000, 700000}) {
    for (int kind = 0; kind < kinds; ++kind) {
      for (const bool in_place : {false, true}) {
        for (const auto type : {Type::f32, Type::i32, Type::u8, Type::f64}) {
          const Call call{.kind = static_cast<Kind>(kind),
                          .type = type,
                          .root = rank.size() - 1,
                          .in_place = in_place,
                          .count = count,
                          .offset = seed % 3};
          require(run(comm, memory, call, ++seed));
        }
      }
    }
  }
  return "done";
}

std::string random(Rank& rank) {
  DeviceMemory first(rank.rank());
  DeviceMemory second(rank.rank());
  const NcclComm comm(rank);
  const char* const wanted = std::getenv("TUTTI_TEST_CALLS");
  const int number = wanted == nullptr ? 300 : std::atoi(wanted);
  std::mt19937_64 common(2026);
  std::mt19937_64 own(static_cast<std::uint64_t>(rank.rank()));
  for (int i = 0; i < number; ++i) {
    const auto max_bytes = std::size_t{1} << (common() % 20 == 0 ? 22 : 16);
    const auto call = random_call(common, rank.size(), max_bytes);
    if (own() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
    // A call alone in a group is as good as one without, also if the ranks differ in it.
    require(run(comm, common() % 2 == 0 ? first : second, call, common(), own() % 3 == 0));
  }
  return "done";
}

/// Calls that NCCL takes and calls that a direct path may take, on streams that nothing else
/// orders.
std::string order(Rank& rank) {
  DeviceMemory first(rank.rank());
  DeviceMemory second(rank.rank());
  const NcclComm comm(rank);
  const std::size_t count = 20000;
  DeviceBuffer buffer(first, count * 4);
  std::mt19937_64 own(static_cast<std::uint64_t>(rank.rank()));
  for (int round = 0; round < 20; ++round) {
    upload(buffer, std::vector<float>(count, 1));
    float due = 1;
    for (int i = 0; i < 8; ++i) {
      // No kernel of the direct path averages f32.
      const bool averages = i % 3 == 2;
      if (!averages) due *= static_cast<float>(rank.size());
      check(ncclAllReduce(buffer.data(), buffer.data(), i % 2 == 0 ? count : count, f32,
                          averages ? nccl_average : nccl_sum, comm.handle(),
                          own() % 2 == 0 ? first.stream() : second.stream()),
            "ncclAllReduce");
    }
    synchronize(first.stream());
    synchronize(second.stream());
    expect_all(buffer, due, fmt::format("round {}", round));
  }
  return "done";
}

std::string groups(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const NcclComm comm(rank);
  const NcclComm pair = comm.split(rank.rank() / 2, rank.rank(), rank.rank() % 2,
                                   std::min(2, rank.size() - rank.rank() / 2 * 2));
  const auto stream = memory.stream();
  const std::size_t count = 1000;
  DeviceBuffer one(memory, count * 4);
  DeviceBuffer other(memory, count * 4);
  const auto start = [&] {
    upload(one, std::vector<std::int32_t>(count, 1));
    upload(other, std::vector<std::int32_t>(count, rank.rank()));
  };
  const auto sum = [&](DeviceBuffer& buffer, const NcclComm& over) {
    check(ncclAllReduce(buffer.data(), buffer.data(), count, i32, nccl_sum, over.handle(), stream),
          "ncclAllReduce");
  };
  const auto broadcast = [&](DeviceBuffer& buffer, const NcclComm& over) {
    check(ncclBroadcast(buffer.data(), buffer.data(), count, i32, 0, over.handle(), stream),
          "ncclBroadcast");
  };
  for (int round = 0; round < 10; ++round) {
    // Several calls on one communicator.
    start();
    check(ncclGroupStart(), "ncclGroupStart");
    check(ncclGroupStart(), "ncclGroupStart");
    sum(one, comm);
    check(ncclGroupEnd(), "ncclGroupEnd");
    broadcast(other, comm);
    check(ncclGroupEnd(), "ncclGroupEnd");
    synchronize(stream);
    expect_all(one, rank.size(), "two calls in a group");
    expect_all(other, 0, "two calls in a group");
    // One call on each of two communicators, which other ranks may make without a group.
    start();
    const bool grouped = (rank.rank() / 2 + round) % 2 == 0;
    if (grouped) check(ncclGroupStart(), "ncclGroupStart");
    sum(one, comm);
    broadcast(other, pair);
    if (grouped) check(ncclGroupEnd(), "ncclGroupEnd");
    synchronize(stream);
    expect_all(one, rank.size(), "calls on two communicators");
    expect_all(other, rank.rank() / 2 * 2, "calls on two communicators");
    // A fan-out: one buffer to all.
    start();
    check(ncclGroupStart(), "ncclGroupStart");
    for (int peer = 1; rank.rank() == 0 && peer < rank.size(); ++peer) {
      check(ncclSend(one.data(), count, i32, peer, comm.handle(), stream), "ncclSend");
    }
    if (rank.rank() != 0) {
      check(ncclRecv(other.data(), count, i32, 0, comm.handle(), stream), "ncclRecv");
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
    synchronize(stream);
    expect_all(other, rank.rank() == 0 ? 0 : 1, "a fan-out");
  }
  return "done";
}

/// Splits of splits, destroyed in any order and while others are used.
std::string split(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const int n = rank.size();
  const Call call{.count = 3000};
  std::optional<NcclComm> world(std::in_place, rank);
  std::optional<NcclComm> reversed(world->split(0, -rank.rank(), n - 1 - rank.rank(), n));
  const int color = rank.rank() % 2;
  const int members = (n + 1 - color) / 2;
  std::optional<NcclComm> half(reversed->split(color, rank.rank(), rank.rank() / 2, members));
  void* none = nullptr;
  check(ncclCommSplit(reversed->handle(), rank.rank() == 0 ? -1 : 1, 0, &none, nullptr),
        "ncclCommSplit");
  require(run(*world, memory, call, 1));
  require(run(*reversed, memory, call, 2));
  require(run(*half, memory, call, 3));
  world.reset();
  require(run(*half, memory, call, 4));
  std::optional<NcclComm> again(reversed->split(0, rank.rank(), rank.rank(), n));
  if (rank.rank() % 2 == 0) {
    reversed.reset();
    half.reset();
  } else {
    half.reset();
    reversed.reset();
  }
  require(run(*again, memory, call, 5));
  check(ncclCommFinalize(again->handle()), "ncclCommFinalize");
  again.reset();
  if (none != nullptr) check(ncclCommDestroy(none), "ncclCommDestroy");
  for (int i = 0; i < 10; ++i) {
    const NcclComm fresh(rank);
    require(run(fresh, memory, call, 10 + static_cast<std::uint64_t>(i)));
  }
  return "done";
}

std::string graph(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const NcclComm comm(rank);
  const auto stream = memory.stream();
  const std::size_t count = 5000;
  DeviceBuffer buffer(memory, count * 4);
  const auto queue = [&] {
    check(ncclAllReduce(buffer.data(), buffer.data(), count, f32, nccl_sum, comm.handle(), stream),
          "ncclAllReduce");
    check(ncclBcast(buffer.data(), count, f32, rank.size() - 1, comm.handle(), stream),
          "ncclBcast");
    check(ncclReduce(buffer.data(), buffer.data(), count, f32, nccl_sum, 0, comm.handle(), stream),
          "ncclReduce");
    check(ncclBcast(buffer.data(), count, f32, 0, comm.handle(), stream), "ncclBcast");
  };
  upload(buffer, std::vector<float>(count, 1));
  queue();
  synchronize(stream);
  upload(buffer, std::vector<float>(count, 1));
  gpu_test::Capture capture(stream);
  queue();
  capture.end();
  float due = 1;
  for (int i = 0; i < 3; ++i) {
    capture.replay();
    due *= static_cast<float>(rank.size() * rank.size());
    check(ncclAllReduce(buffer.data(), buffer.data(), count, f32, nccl_average, comm.handle(),
                        stream),
          "ncclAllReduce");
  }
  synchronize(stream);
  expect_all(buffer, due, "after replays");
  return "done";
}

/// A graph with calls on two branches, which NCCL runs one after the other. Not on simulated
/// devices, whose captures have one stream.
std::string branches(Rank& rank) {
  DeviceMemory first(rank.rank());
  DeviceMemory second(rank.rank());
  const NcclComm comm(rank);
  const auto cuda = device::load_cuda();
  const std::size_t count = 20000;
  DeviceBuffer buffer(first, count * 4);
  device::CudaEvent event = nullptr;
  check_cuda(cuda.calls.create_event(&event, device::event_without_timing), "cuEventCreate");
  const auto after = [&](void* stream, void* other) {
    check_cuda(cuda.calls.record_event(event, other), "cuEventRecord");
    check_cuda(cuda.calls.stream_wait_event(stream, event, 0), "cuStreamWaitEvent");
  };
  upload(buffer, std::vector<float>(count, 1));
  gpu_test::Capture capture(first.stream());
  after(second.stream(), first.stream());
  float factor = 1;
  for (int i = 0; i < 12; ++i) {
    const bool averages = i % 3 == 2;
    if (!averages) factor *= static_cast<float>(rank.size());
    check(
        ncclAllReduce(buffer.data(), buffer.data(), count, f32, averages ? nccl_average : nccl_sum,
                      comm.handle(), i % 2 == 0 ? first.stream() : second.stream()),
        "ncclAllReduce");
  }
  after(first.stream(), second.stream());
  capture.end();
  float due = 1;
  for (int i = 0; i < 4; ++i) {
    capture.replay();
    due *= factor;
  }
  synchronize(first.stream());
  expect_all(buffer, due, "after replays");
  return "done";
}

/// A non-blocking communicator, which the ranks poll until it is ready.
std::string nonblocking(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const auto comm = NcclComm::nonblocking(rank);
  require(run(comm, memory, {.kind = Kind::bcast, .count = 100}, 1));
  require(run(comm, memory, {.kind = Kind::reduce, .count = 100}, 2));
  require(run(comm, memory, {.count = 100}, 3));
  return "done";
}

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

/// Ends normally, without destroying its communicator, while rank 0 still needs what it has sent.
std::string leave(Rank& rank) {
  DeviceMemory memory(rank.rank());
  NcclComm comm(rank);
  DeviceBuffer buffer(memory, 4000);
  upload(buffer, std::vector<std::int32_t>(1000, rank.rank()));
  if (rank.rank() == 0) std::this_thread::sleep_for(3s);
  check(ncclBroadcast(buffer.data(), buffer.data(), 1000, i32, 1, comm.handle(), memory.stream()),
        "ncclBroadcast");
  synchronize(memory.stream());
  expect_all(buffer, 1, "after the root's end");
  comm.release();
  return "done";
}

std::string loop_until_killed(Rank& rank) {
  DeviceMemory memory(rank.rank());
  NcclComm comm(rank);
  DeviceBuffer buffer(memory, 40000);
  while (true) {
    const int result = ncclAllReduce(buffer.data(), buffer.data(), 10000, f32, nccl_sum,
                                     comm.handle(), memory.stream());
    if (result != 0) break;
    synchronize(memory.stream());
    int error = 0;
    check(ncclCommGetAsyncError(comm.handle(), &error), "ncclCommGetAsyncError");
    if (error != 0) break;
    rank.mark();
  }
  const std::string said = ncclGetLastError(comm.handle());
  check(ncclCommAbort(comm.release()), "ncclCommAbort");
  return said;
}

std::string check_killed(int ranks) {
  test::Job job(ranks, loop_until_killed);
  job.await_marks_of_all(10, 60s);
  const auto killed = job.signal(1, SIGKILL);
  const auto reports = job.finish(30s);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (rank == 1) continue;
    const auto& report = reports[rank];
    if (!report.finished || report.text.find("rank 1 (") == std::string::npos ||
        report.text.find("ncclAllReduce of 10000 f32") == std::string::npos) {
      return test::describe(reports);
    }
    const auto took = report.ended - killed;
    if (took > 8s) return fmt::format("rank {} returned after {:.1f} s", rank, test::seconds(took));
  }
  return {};
}

struct Check {
  const char* name;
  std::string (*body)(Rank&);
};
constexpr std::array<Check, 12> checks{{{"calls", calls},
                                        {"random", random},
                                        {"order", order},
                                        {"groups", groups},
                                        {"split", split},
                                        {"graph", graph},
                                        {"branches", branches},
                                        {"nonblocking", nonblocking},
                                        {"mixed", mixed},
                                        {"late", late},
                                        {"abort", abort_call},
                                        {"leave", leave}}};

bool perform(const std::string& name, int ranks) {
  const auto start = test::Clock::now();
  std::string wrong = "there is no such check";
  try {
    if (name == "killed") wrong = check_killed(ranks);
    for (const auto& check : checks) {
      if (name == check.name) wrong = test::errors_of(test::run_ranks(ranks, check.body, 170s));
    }
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  fmt::print("{} {} on {} ranks ({:.1f} s){}{}\n", wrong.empty() ? "passed" : "FAILED", name, ranks,
             test::seconds(test::Clock::now() - start), wrong.empty() ? "" : ": ", wrong);
  std::fflush(stdout);
  return wrong.empty();
}

}  // namespace
}  // namespace tutti::preload_test

extern "C" __attribute__((visibility("default"))) int nccl_check(int argc, char** argv) {
  using namespace tutti::preload_test;
  if (argc < 3) {
    fmt::print(stderr,
               "nccl_check RANKS "
               "calls|random|order|groups|split|graph|branches|nonblocking|mixed|late|abort|leave|"
               "killed|time …\n");
    return 2;
  }
  const int ranks = std::atoi(argv[1]);
  bool well = true;
  for (int i = 2; i < argc; ++i) {
    well = (std::string(argv[i]) == "time" ? print_times(ranks) : perform(argv[i], ranks)) && well;
  }
  return well ? 0 : 1;
}
