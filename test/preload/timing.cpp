#include "timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "gpu/graph.hpp"
#include "nccl_program.hpp"

namespace tutti::preload_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int batches = 9;

struct Operation {
  const char* name;
  std::function<int(std::size_t bytes)> queue;
};

/// The slowest rank's value.
double of_slowest(Rank& rank, double own) {
  std::vector<std::byte> bytes(sizeof own);
  std::memcpy(bytes.data(), &own, sizeof own);
  double slowest = 0;
  for (const auto& other : rank.bootstrap().all_gather(bytes, Deadline::after(60s))) {
    double value = 0;
    std::memcpy(&value, other.data(), sizeof value);
    slowest = std::max(slowest, value);
  }
  return slowest;
}

double microseconds_per_call(Rank& rank, void* stream, int calls_in_batch,
                             const std::function<void()>& batch) {
  std::vector<double> times;
  for (int i = 0; i <= batches; ++i) {
    rank.bootstrap().barrier(Deadline::after(60s));
    const auto start = Clock::now();
    batch();
    synchronize(stream);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    const auto slowest = of_slowest(rank, took.count() / calls_in_batch);
    if (i > 0) times.push_back(slowest);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::string measure(Rank& rank) {
  DeviceMemory memory(rank.rank());
  const NcclComm comm(rank);
  auto* const stream = memory.stream();
  const std::size_t max_bytes = is_simulated() ? std::size_t{64} << 10 : std::size_t{16} << 20;
  const auto n = static_cast<std::size_t>(rank.size());
  DeviceBuffer send(memory, max_bytes * n);
  DeviceBuffer recv(memory, max_bytes * n);
  auto* const from = send.data();
  auto* const to = recv.data();
  void* const handle = comm.handle();
  const std::vector<Operation> operations{
      {"all_reduce",
       [&](std::size_t bytes) {
         return ncclAllReduce(from, to, bytes / 4, f32, 0, handle, stream);
       }},
      {"broadcast",
       [&](std::size_t bytes) {
         return ncclBroadcast(from, to, bytes / 4, f32, 0, handle, stream);
       }},
      {"all_gather",
       [&](std::size_t bytes) { return ncclAllGather(from, to, bytes / 4, f32, handle, stream); }},
      {"reduce_scatter",
       [&](std::size_t bytes) {
         return ncclReduceScatter(from, to, bytes / 4, f32, 0, handle, stream);
       }},
      // Always handed on: what a preload costs there.
      {"reduce",
       [&](std::size_t bytes) {
         return ncclReduce(from, to, bytes / 4, f32, 0, 0, handle, stream);
       }},
  };
  for (const auto& operation : operations) {
    for (std::size_t bytes = 4; bytes <= max_bytes; bytes *= bytes == 4 ? 2048 : 8) {
      const int number = is_simulated() ? 3 : bytes <= (std::size_t{1} << 20) ? 200 : 40;
      const auto queue = [&] {
        for (int i = 0; i < number; ++i) check(operation.queue(bytes), operation.name);
      };
      const auto plain = microseconds_per_call(rank, stream, number, queue);
      gpu_test::Capture capture(stream);
      queue();
      capture.end();
      const auto graph = microseconds_per_call(rank, stream, number, [&] { capture.replay(); });
      if (rank.rank() != 0) continue;
      fmt::print("time {} {} plain {:.2f}\n", operation.name, bytes, plain);
      fmt::print("time {} {} graph {:.2f}\n", operation.name, bytes, graph);
      std::fflush(stdout);
    }
  }
  return "done";
}

}  // namespace

bool print_times(int ranks) {
  const auto errors = test::errors_of(test::run_ranks(ranks, measure, 150s));
  if (!errors.empty()) fmt::print("FAILED time: {}\n", errors);
  return errors.empty();
}

}  // namespace tutti::preload_test
