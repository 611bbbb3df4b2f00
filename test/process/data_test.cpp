// Properties of data: buffers at the end of mapped memory, all sizes of communicators, NaN, and the
// order of deterministic reductions.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "algorithm/choice.hpp"
#include "base/shape.hpp"
#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

/// A buffer directly before an inaccessible page.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    base_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(base_ != MAP_FAILED, "no memory");
    auto* const edge = static_cast<std::byte*>(base_) + mapped_ - page;
    ::mprotect(edge, page, PROT_NONE);
    begin_ = edge - bytes;
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { ::munmap(base_, mapped_); }

  template <class T>
  std::span<T> as(std::size_t count) {
    return {reinterpret_cast<T*>(begin_), count};
  }

 private:
  std::size_t mapped_ = 0;
  void* base_ = nullptr;
  std::byte* begin_ = nullptr;
};

constexpr Operation operations[] = {
    Operation::broadcast,  Operation::fan_out,        Operation::all_reduce,     Operation::reduce,
    Operation::all_gather, Operation::reduce_scatter, Operation::gather,         Operation::scatter,
    Operation::all_to_all, Operation::scan,           Operation::exclusive_scan,
};

int value_of(int rank, std::size_t i) {
  return rank * 100'000 + static_cast<int>(i);
}

int sum_over(int size, std::size_t i) {
  return 100'000 * (size * (size - 1) / 2) + size * static_cast<int>(i);
}

/// Element i of the result of `rank`, as the operation is defined.
int due(Operation operation, int rank, int size, int root, std::size_t count, std::size_t i) {
  const auto block = count == 0 ? 0 : static_cast<int>(i / count);
  const auto own = static_cast<std::size_t>(rank) * count;
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      return sum_over(size, i);
    case Operation::scan:
      return sum_over(rank + 1, i);
    case Operation::exclusive_scan:
      return rank == 0 ? -1 : sum_over(rank, i);  // unchanged
    case Operation::all_gather:
    case Operation::gather:
      return value_of(block, i % count);
    case Operation::reduce_scatter:
      return sum_over(size, own + i);
    case Operation::scatter:
      return value_of(root, own + i);
    case Operation::all_to_all:
      return value_of(block, own + i % count);
    default:
      return value_of(root, i);
  }
}

/// Runs an operation on i32 with both buffers at the edge. Throws if the result is wrong.
void try_operation(Communicator& communicator, Operation operation, int root, std::size_t count,
                   std::string_view algorithm = {}) {
  const auto& shape = shape_of(operation);
  const int rank = communicator.rank();
  const int size = communicator.size();
  const auto elements = [&](Extent extent, bool at_root_only) -> std::size_t {
    if (extent == Extent::none || (at_root_only && rank != root)) return 0;
    return extent == Extent::one ? count : count * static_cast<std::size_t>(size);
  };
  const auto send_count = elements(shape.send, shape.send_at_root_only);
  const auto recv_count = elements(shape.recv, shape.recv_at_root_only);
  GuardedBuffer send_memory(send_count * sizeof(int));
  GuardedBuffer recv_memory(recv_count * sizeof(int));
  const auto send = send_memory.as<int>(send_count);
  const auto recv = recv_memory.as<int>(recv_count);
  for (std::size_t i = 0; i < send_count; ++i) send[i] = value_of(rank, i);
  for (std::size_t i = 0; i < recv_count; ++i) recv[i] = -1;
  if (shape.send == Extent::none && rank == root) {
    for (std::size_t i = 0; i < recv_count; ++i) recv[i] = value_of(rank, i);
  }
  communicator.run(Collective{.operation = operation,
                              .type = Type::i32,
                              .root = root,
                              .send = send.data(),
                              .send_count = send_count,
                              .recv = recv.data(),
                              .recv_count = recv_count},
                   {.algorithm = algorithm});
  for (std::size_t i = 0; i < recv_count; ++i) {
    expect(recv[i] == due(operation, rank, size, root, count, i),
           "WRONG DATA in " + std::string(name(operation)) + " of " + std::to_string(count) +
               " on " + std::to_string(size) + " ranks, root " + std::to_string(root) +
               ", element " + std::to_string(i));
  }
}

}  // namespace

TEST_CASE("every operation on every size of communicator from 1 to 33") {
  const auto reports = run_ranks(
      33,
      [](Rank& rank) -> std::string {
        auto& world = rank.communicator({.timeout = 100s});
        for (int size = 1; size <= 33; ++size) {
          auto part = world.split(rank.rank() < size ? std::optional<int>(0) : std::nullopt);
          if (!part) continue;
          for (const auto operation : operations) {
            for (const std::size_t count : {0, 1, 37}) {
              try_operation(*part, operation, size / 2, count);
            }
          }
          try_operation(*part, Operation::all_reduce, 0, 30'000);
        }
        world.finalize();
        return "done";
      },
      150s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("every algorithm between hosts of which some share memory") {
  constexpr std::array host_of{"a", "a", "b", "b", "b", "c"};
  // The first rank of a host without room for the segment: nobody there shares memory.
  for (const int without : {-1, 0, 2}) {
    CAPTURE(without);
    const auto reports = run_ranks(
        static_cast<int>(host_of.size()),
        [&](Rank& rank) -> std::string {
          ::setenv("TUTTI_HOST_ID", host_of[static_cast<std::size_t>(rank.rank())], 1);
          if (rank.rank() == without) {
            const rlimit small{4096, 4096};
            ::setrlimit(RLIMIT_FSIZE, &small);
          }
          auto& communicator =
              rank.communicator({.timeout = 100s, .log = [](LogLevel, const std::string&) {}});
          const auto try_all = [](Communicator& on) {
            for (const auto operation :
                 {Operation::broadcast, Operation::all_reduce, Operation::all_gather,
                  Operation::reduce, Operation::reduce_scatter, Operation::all_to_all,
                  Operation::scan, Operation::exclusive_scan}) {
              for (const auto algorithm : algorithm::algorithms_of(operation)) {
                for (const std::size_t count : {1, 1000, 100'003}) {
                  try_operation(on, operation, on.size() - 1, count, algorithm);
                }
              }
            }
            for (const auto algorithm : algorithm::algorithms_of(Operation::barrier)) {
              on.barrier({.algorithm = algorithm});
            }
          };
          try_all(communicator);
          // Ranks of all hosts, in another order.
          auto half = communicator.split(rank.rank() % 2, -rank.rank());
          try_all(*half);
          half->finalize();
          communicator.finalize();
          return "done";
        },
        150s);
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("buffers that end where memory ends") {
  const auto reports = run_ranks(
      4,
      [](Rank& rank) -> std::string {
        auto& world = rank.communicator({.timeout = 50s});
        for (const auto operation : operations) {
          for (const std::size_t count : {1, 1'023, 4'096, 100'003}) {
            try_operation(world, operation, 3, count);
          }
        }
        world.finalize();
        return "done";
      },
      100s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("NaN wins in min and max on every rank, and of two zeros the smaller is the negative") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto op : {min, max}) {
      std::vector<float> values{rank.rank() == 1 ? nan : 1.0F, rank.rank() == 2 ? -0.0F : 0.0F};
      world.all_reduce(in_place, values, op);
      expect(std::isnan(values[0]), "NaN was lost");
      expect(std::signbit(values[1]) == (op == min), "the sign of zero is wrong");
    }
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("an average: 3 of 2 and 4; of integers 1 and 2, truncated, 1; of -1 and -2, -1") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    std::vector<float> real{rank.rank() == 0 ? 2.0F : 4.0F};
    world.all_reduce(in_place, real, average);
    expect(real[0] == 3, "2 and 4 give " + std::to_string(real[0]));
    std::vector<int> whole{rank.rank() + 1, -1 - rank.rank()};
    world.all_reduce(in_place, whole, average);
    expect(whole[0] == 1 && whole[1] == -1, "whole numbers do not truncate toward zero");
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a deterministic job gives the same bits in 20 runs, fused or not, in any chunks") {
  const auto reports = run_ranks(5, [](Rank& rank) -> std::string {
    constexpr std::size_t half_count = 30'011;
    std::mt19937 random(static_cast<unsigned>(rank.rank()));
    std::uniform_real_distribution<float> any(-1e6F, 1e6F);
    std::vector<float> input(2 * half_count);
    for (auto& value : input) value = any(random) * any(random);
    std::vector<float> first;
    for (int run = 0; run < 20; ++run) {
      ::setenv("TUTTI_CHUNK", run % 2 == 0 ? "256KiB" : "1000", 1);
      auto& world = rank.communicator({.timeout = 20s, .deterministic = true});
      auto fused = input;
      world.all_reduce(in_place, fused, sum);
      auto apart = input;
      world.all_reduce(in_place, std::span(apart).first(half_count), sum);
      world.all_reduce(in_place, std::span(apart).last(half_count), sum);
      expect(std::memcmp(fused.data(), apart.data(), fused.size() * sizeof(float)) == 0,
             "fused and apart differ");
      if (first.empty()) first = fused;
      expect(std::memcmp(fused.data(), first.data(), fused.size() * sizeof(float)) == 0,
             "two runs differ");
      world.finalize();
      rank.destroy_communicators();
    }
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
