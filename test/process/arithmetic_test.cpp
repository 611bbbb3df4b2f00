// Reductions give the same bits on all ranks, whatever floating-point mode their threads have;
// averages of numbers whose sum overflows. With every algorithm.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "algorithm/choice.hpp"
#include "base/shape.hpp"
#include "support/catch.hpp"
#include "support/float_controls.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

constexpr Operation reductions[] = {Operation::all_reduce, Operation::reduce,
                                    Operation::reduce_scatter};

/// The default algorithm of an operation, the shared-memory one if there is one, and those over
/// links.
std::vector<std::string> algorithms_of(Communicator& communicator, Operation operation,
                                       bool in_rank_order) {
  std::vector<std::string> result{""};
  communicator.barrier();
  if (communicator.latest_algorithm() == "shared") result.emplace_back("shared");
  for (const auto name : algorithm::algorithms_of(operation, in_rank_order)) {
    result.emplace_back(name);
  }
  return result;
}

struct Case {
  Operation operation;
  Operator op;
  std::size_t count;
  std::string algorithm;
  FloatMode mode = FloatMode::usual;
  bool in_place = false;
  bool started = false;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} of {} by \"{}\"{}{}", name(operation), name(op), count, algorithm,
                       in_place ? ", in place" : "", started ? ", started" : "");
  }
};

/// Returns the receive buffer of a call in which every rank contributes `value_at(i)` to all
/// blocks. Empty on ranks without a result.
template <class T, class Value>
std::vector<T> result_of(Communicator& communicator, const Case& one, Value value_at) {
  const auto& shape = shape_of(one.operation);
  const auto size = static_cast<std::size_t>(communicator.size());
  const bool blocks = shape.send == Extent::all;
  const bool receives = !shape.recv_at_root_only || communicator.rank() == 0;
  const auto all = blocks ? one.count * size : one.count;
  std::vector<T> send(all);
  for (std::size_t i = 0; i < all; ++i) send[i] = value_at(i % one.count);
  const auto before = send;
  std::vector<T> recv(receives ? one.count : 0);
  const Collective call{.operation = one.operation,
                        .type = TypeOf<T>::value,
                        .op = one.op,
                        .root = shape.rooted ? 0 : -1,
                        .send = one.in_place ? nullptr : send.data(),
                        .send_count = one.in_place ? 0 : all,
                        .recv = one.in_place ? send.data() : recv.data(),
                        .recv_count = one.in_place ? all : recv.size(),
                        .in_place = one.in_place};
  {
    const FloatControls controls(one.mode);
    if (one.started) {
      communicator.start(call, {.algorithm = one.algorithm}).wait();
    } else {
      communicator.run(call, {.algorithm = one.algorithm});
    }
    expect(controls.are_as_set(), one.text() + " changed the thread's control register");
  }
  if (!one.in_place) {
    expect(std::memcmp(send.data(), before.data(), all * sizeof(T)) == 0,
           one.text() + " changed the send buffer");
    return recv;
  }
  const auto begin = blocks ? static_cast<std::size_t>(communicator.rank()) * one.count : 0;
  for (std::size_t i = 0; i < all; ++i) {
    const bool own = receives && i >= begin && i < begin + one.count;
    expect(own || std::memcmp(&send[i], &before[i], sizeof(T)) == 0,
           one.text() + " changed what is not its result");
  }
  if (!receives) return {};
  return {send.begin() + static_cast<std::ptrdiff_t>(begin),
          send.begin() + static_cast<std::ptrdiff_t>(begin + one.count)};
}

/// Calls `f` with every way to reduce.
template <class F>
void for_each_way(Communicator& communicator, bool in_rank_order, std::size_t count, F f) {
  for (const auto operation : reductions) {
    for (const auto& algorithm : algorithms_of(communicator, operation, in_rank_order)) {
      for (const bool in_place : {false, true}) {
        for (const auto op : {Operator::sum, Operator::average}) {
          f(Case{.operation = operation,
                 .op = op,
                 .count = count,
                 .algorithm = algorithm,
                 .in_place = in_place,
                 .started = in_place == (op == Operator::sum)});
        }
      }
    }
  }
}

/// The smallest numbers, whose sums are exact in any order, and some normal numbers.
template <class T>
void try_modes(Rank& rank, Communicator& communicator, std::size_t count) {
  constexpr FloatMode modes[] = {FloatMode::usual, FloatMode::flushing, FloatMode::upward,
                                 FloatMode::trapping};
  const auto value_at = [&](std::size_t i) {
    const auto small = static_cast<T>((i * 7 + static_cast<std::size_t>(rank.rank())) % 5 + 1);
    if (i % 3 == 0) return small * std::numeric_limits<T>::denorm_min();
    return i % 3 == 1 ? small : small / 3;
  };
  for_each_way(communicator, false, count, [&](Case one) {
    const auto usual = result_of<T>(communicator, one, value_at);
    one.mode = modes[rank.rank() % 4];
    const auto result = result_of<T>(communicator, one, value_at);
    const auto bytes = result.size() * sizeof(T);
    expect(bytes == 0 || std::memcmp(usual.data(), result.data(), bytes) == 0,
           "DIFFERENT BITS in mode: " + one.text());
    if (one.operation != Operation::all_reduce) return;
    std::vector<T> all(count * static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(std::span<const T>(result), std::span(all));
    for (int peer = 0; peer < communicator.size(); ++peer) {
      const auto* const theirs = all.data() + static_cast<std::size_t>(peer) * count;
      expect(std::memcmp(theirs, result.data(), bytes) == 0,
             fmt::format("DIFFERENT BITS on rank {}: {}", peer, one.text()));
    }
  });
}

template <class T>
void try_averages(Communicator& communicator, std::size_t count) {
  const T most = std::numeric_limits<T>::max();
  const T large = sizeof(T) == 4 ? static_cast<T>(3e38) : static_cast<T>(1e308);
  const T values[] = {large, -large, most, -most, T{1}, T{7} / 3, std::numeric_limits<T>::min()};
  const auto value_at = [&](std::size_t i) { return values[i % std::size(values)]; };
  // As documented in semantics.md. The sum of up to three equal numbers does not depend on the
  // order.
  const int size = communicator.size();
  const T weight = size == 1 ? 1 : size == 2 ? T{1} / 4 : T{1} / 8;
  const auto due = [&](std::size_t i) {
    T sum = value_at(i) * weight;
    for (int rank = 1; rank < size; ++rank) sum += value_at(i) * weight;
    return sum / (static_cast<T>(size) * weight);
  };
  expect(size != 2 || (due(0) == large && due(2) == most), "the test's own arithmetic");
  for_each_way(communicator, false, count, [&](Case one) {
    one.op = Operator::average;
    const auto result = result_of<T>(communicator, one, value_at);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] == due(i)) continue;
      expect(false, fmt::format("{}: {} and not {} at {}", one.text(), result[i], due(i), i));
    }
  });
}

/// bf16 is the upper half of an f32.
void try_16_bit_averages(Communicator& communicator, std::size_t count) {
  constexpr std::uint16_t values[] = {0x7f62, 0xff62, 0x7f7f, 0xff7f, 0x3f80, 0x0001, 0x0080};
  const auto value_at = [&](std::size_t i) { return values[i % std::size(values)]; };
  const Type type = Type::bf16;
  for (const auto& algorithm : algorithms_of(communicator, Operation::all_reduce, true)) {
    std::vector<std::uint16_t> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = value_at(i);
    communicator.run(Collective{.operation = Operation::all_reduce,
                                .type = type,
                                .op = Operator::average,
                                .recv = data.data(),
                                .recv_count = count,
                                .in_place = true},
                     {.algorithm = algorithm});
    for (std::size_t i = 0; i < count; ++i) {
      expect(data[i] == value_at(i), fmt::format("average of bf16 by \"{}\": {:#x} and not {:#x}",
                                                 algorithm, data[i], value_at(i)));
    }
  }
}

}  // namespace

TEST_CASE("the bits are the same on all ranks, however each rank's thread computes floats") {
  for (const int size : {3, 4}) {
    const auto reports = run_ranks(
        size,
        [](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 60s});
          const bool all_modes = rank.size() == 4;
          try_modes<float>(rank, communicator, 3);
          try_modes<float>(rank, communicator, all_modes ? 20'000 : 100'000);
          try_modes<double>(rank, communicator, 3);
          try_modes<double>(rank, communicator, 5'000);
          return "done";
        },
        200s);
    REQUIRE(errors_of(reports) == "");
  }
}

TEST_CASE("scratch memory for sums of 16-bit floats is freed") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    constexpr std::size_t chunk = std::size_t{8} << 20;
    ::setenv("TUTTI_CHUNK", "8MiB", 1);
    auto& communicator = rank.communicator({.timeout = 60s});
    std::vector<std::uint16_t> data(chunk / 2 * 4, 0x3f80);
    const auto own_mebibytes = [] {
      std::ifstream file("/proc/self/status");
      std::string word;
      while (file >> word && word != "RssAnon:") {
      }
      std::size_t kib = 0;
      file >> kib;
      return kib / 1024;
    };
    communicator.barrier();
    const auto before = own_mebibytes();
    for (const auto name : algorithm::algorithms_of(Operation::all_reduce, true)) {
      communicator.run(Collective{.operation = Operation::all_reduce,
                                  .type = Type::bf16,
                                  .op = Operator::max,
                                  .recv = data.data(),
                                  .recv_count = data.size(),
                                  .in_place = true},
                       {.algorithm = name});
      const auto after = own_mebibytes();
      expect(after < before + 10, fmt::format("{}: {} MiB before, {} after", name, before, after));
    }
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("an average of large numbers is their average, by every algorithm") {
  for (const int size : {1, 2, 3}) {
    const auto reports = run_ranks(
        size,
        [](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 60s});
          for (const std::size_t count : {1, 3, 777, rank.size() == 2 ? 100'000 : 5'000}) {
            try_averages<float>(communicator, count);
            try_averages<double>(communicator, count);
            try_16_bit_averages(communicator, count);
          }
          return "done";
        },
        200s);
    REQUIRE(errors_of(reports) == "");
  }
}

}  // namespace tutti::test
