// Every algorithm on real data, all ranks in one thread, compared with a plain computation.
#include "engine/execution.hpp"

#include <string>

#include "algorithm/algorithms.hpp"
#include "algorithm/choice.hpp"
#include "engine/reduce.hpp"
#include "ranks.hpp"
#include "support/catch.hpp"

namespace tutti::engine::test {

namespace {

using algorithm::ScheduleArguments;

struct Case {
  std::string_view algorithm;
  int size;
  std::size_t count;
  std::int64_t chunk;
  std::size_t piece;
  bool in_place = true;
  int root = 0;
};

std::string text_of(const Case& c) {
  return std::string(c.algorithm) + ", size " + std::to_string(c.size) + ", count " +
         std::to_string(c.count) + ", chunk " + std::to_string(c.chunk) + ", pieces of " +
         std::to_string(c.piece) + " bytes, root " + std::to_string(c.root) +
         (c.in_place ? ", in place" : ", out of place");
}

ScheduleArguments problem_of(const Case& c, int rank) {
  return {.rank = rank,
          .size = c.size,
          .root = c.root,
          .count = static_cast<std::int64_t>(c.count),
          .chunk = c.chunk,
          .in_place = c.in_place,
          .host = {}};
}

/// Contribution of `rank` at element `i`: small, so that sums are exact in every type but i8, which
/// wraps.
template <class T>
T contribution(std::size_t rank, std::size_t i) {
  return static_cast<T>(static_cast<int>((rank * 7 + i * 5) % 23) - 11);
}

template <class T>
std::vector<T> contributions(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = contribution<T>(static_cast<std::size_t>(rank), i);
  }
  return values;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<T> reference(Operator op, int size, std::size_t count) {
  auto result = contributions<T>(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const auto theirs = contributions<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (op == Operator::max) {
        result[i] = std::max(result[i], theirs[i]);
      } else if constexpr (std::is_integral_v<T>) {
        result[i] =
            static_cast<T>(static_cast<unsigned>(result[i]) + static_cast<unsigned>(theirs[i]));
      } else {
        result[i] += theirs[i];
      }
    }
  }
  return result;
}

/// Empty if the result is correct.
template <class T>
std::string all_reduce_fault(const Case& c, Operator op, std::uint64_t seed) {
  Job job{.in_place = c.in_place,
          .element_bytes = sizeof(T),
          .reduce = reduce_function(TypeOf<T>::value, op),
          .combine = combine_function(TypeOf<T>::value, op),
          .piece = c.piece,
          .seed = seed};
  for (int rank = 0; rank < c.size; ++rank) {
    job.schedules.push_back(
        algorithm::make(Operation::all_reduce, c.algorithm, problem_of(c, rank)));
    auto bytes = bytes_of(contributions<T>(rank, c.count));
    const std::vector<std::byte> blank(bytes.size(), std::byte{0x55});
    job.memory.push_back({c.in_place ? blank : bytes, c.in_place ? bytes : blank, {}});
  }
  const auto inputs = job.memory;
  if (!run(job)) return "it stopped: " + text_of(c);
  const auto expected = bytes_of(reference<T>(op, c.size, c.count));
  for (std::size_t rank = 0; rank < job.memory.size(); ++rank) {
    if (job.memory[rank].output != expected) {
      return "wrong on rank " + std::to_string(rank) + ": " + text_of(c);
    }
    if (job.memory[rank].input != inputs[rank].input) return "input changed: " + text_of(c);
  }
  return {};
}

std::string broadcast_fault(Operation operation, const Case& c, std::uint64_t seed) {
  Job job{.element_bytes = 4, .piece = c.piece, .seed = seed};
  for (int rank = 0; rank < c.size; ++rank) {
    job.schedules.push_back(algorithm::make(operation, c.algorithm, problem_of(c, rank)));
    job.memory.push_back({{}, bytes_of(contributions<std::int32_t>(rank, c.count)), {}});
  }
  if (!run(job)) return "it stopped: " + text_of(c);
  const auto expected = bytes_of(contributions<std::int32_t>(c.root, c.count));
  for (std::size_t rank = 0; rank < job.memory.size(); ++rank) {
    if (job.memory[rank].output != expected) {
      return "wrong on rank " + std::to_string(rank) + ": " + text_of(c);
    }
  }
  return {};
}

const std::vector<int> sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33};

std::vector<std::size_t> counts_for(int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return {0, 1, ranks - 1, ranks, 2 * ranks + 3, 1000};
}

/// Small pieces make many chunks of many ranks; they are tried where that is cheap.
std::vector<std::size_t> pieces_for(int size, std::size_t bytes) {
  std::vector<std::size_t> pieces{1 << 20};
  for (const std::size_t piece : {1, 3, 7}) {
    if (bytes * static_cast<std::size_t>(size * size) <= 4'000 * piece) pieces.push_back(piece);
  }
  return pieces;
}

std::int64_t chunk_for(std::size_t count, std::uint64_t seed) {
  if (count >= 1000) return seed % 2 == 0 ? 50 : 128;
  return seed % 2 == 0 ? 3 : 16;
}

template <class T>
void try_all_reduce() {
  std::uint64_t seed = 0;
  for (const auto algorithm : algorithm::algorithms_of(Operation::all_reduce)) {
    for (const int size : sizes) {
      for (const auto count : counts_for(size)) {
        for (const auto piece : pieces_for(size, count * sizeof(T))) {
          ++seed;
          const auto op = seed % 3 == 0 ? Operator::max : Operator::sum;
          for (const bool in_place : {true, false}) {
            if (size > 9 && in_place == (seed % 2 == 0)) continue;  // many ranks are slow
            const auto fault = all_reduce_fault<T>(
                {algorithm, size, count, chunk_for(count, seed), piece, in_place}, op, seed);
            if (!fault.empty()) FAIL(fault);
          }
        }
      }
    }
  }
}

void try_broadcast(Operation operation) {
  std::uint64_t seed = 0;
  for (const auto algorithm : algorithm::algorithms_of(operation)) {
    for (const int size : sizes) {
      for (const int root : {0, size / 2, size - 1}) {
        for (const auto count : counts_for(size)) {
          for (const auto piece : pieces_for(size, 4 * count)) {
            ++seed;
            const auto fault = broadcast_fault(
                operation, {algorithm, size, count, chunk_for(count, seed), piece, true, root},
                seed);
            if (!fault.empty()) FAIL(fault);
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("all_reduce of f32 matches a plain loop") {
  try_all_reduce<float>();
}

TEST_CASE("all_reduce of i8 matches a plain loop") {
  try_all_reduce<std::int8_t>();
}

TEST_CASE("all_reduce of f64 matches a plain loop") {
  try_all_reduce<double>();
}

TEST_CASE("broadcast gives every rank the root's buffer") {
  try_broadcast(Operation::broadcast);
}

TEST_CASE("fan_out gives every rank the root's buffer") {
  try_broadcast(Operation::fan_out);
}

TEST_CASE("schedules many times longer than the window complete") {
  for (const int size : {2, 3, 5}) {
    for (const auto algorithm : algorithm::algorithms_of(Operation::all_reduce)) {
      for (const bool in_place : {true, false}) {
        const auto fault = all_reduce_fault<std::int32_t>({algorithm, size, 500, 1, 64, in_place},
                                                          Operator::sum, 1);
        CHECK(fault == "");
      }
    }
    for (const auto algorithm : algorithm::algorithms_of(Operation::broadcast)) {
      CHECK(broadcast_fault(Operation::broadcast, {algorithm, size, 500, 1, 64}, 1) == "");
    }
  }
}

TEST_CASE("a barrier ends on all ranks, in any order of progress") {
  for (const int size : sizes) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      Job job{.reduce = reduce_function(Type::u8, Operator::max), .seed = seed};
      for (int rank = 0; rank < size; ++rank) {
        job.schedules.push_back(
            algorithm::make(Operation::barrier, "dissemination",
                            problem_of({"dissemination", size, 0, 1, 1}, rank)));
        job.memory.emplace_back();
      }
      INFO("size " << size << ", seed " << seed);
      REQUIRE(run(job));
    }
  }
}

}  // namespace tutti::engine::test
