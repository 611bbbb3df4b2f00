#include "checks.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "gpu/graph.hpp"

namespace tutti::preload_test {

using namespace std::chrono_literals;

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

std::string random_calls(Rank& rank) {
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
      check(ncclAllReduce(buffer.data(), buffer.data(), count, f32,
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

}  // namespace tutti::preload_test
