// Schedules as data: the cursor, the text of a step, and sizes independent of ranks and bytes.
#include <bit>

#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

std::vector<std::string> texts_of(const Schedule& schedule) {
  std::vector<std::string> texts;
  Cursor cursor(schedule);
  for (Step step; cursor.next(step);) texts.push_back(describe(step));
  return texts;
}

std::size_t patterns_in(const Schedule& schedule) {
  std::size_t patterns = 0;
  for (const Loop& loop : schedule.loops) patterns += loop.steps.size();
  return patterns;
}

constexpr Operation operations[] = {
    Operation::barrier,    Operation::broadcast,     Operation::fan_out, Operation::all_reduce,
    Operation::reduce,     Operation::all_gather,    Operation::gather,  Operation::scatter,
    Operation::all_to_all, Operation::reduce_scatter};

void require_short(const Schedule& schedule, int size) {
  INFO(schedule.algorithm << " with " << size << " ranks");
  const auto log = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size)));
  CHECK(schedule.loops.size() <= 6 * log + 8);
  // Inside its one host, a leader has steps for each rank.
  const bool has_neighbours =
      schedule.algorithm == "leaders" || schedule.algorithm == "hierarchical";
  const auto inside = has_neighbours ? 3 * static_cast<std::size_t>(size) : 0;
  CHECK(patterns_in(schedule) <= 8 * log + 24 + inside);
}

std::int64_t sent(const Schedule& schedule) {
  std::int64_t elements = 0;
  Cursor cursor(schedule);
  for (Step step; cursor.next(step);)
    if (step.kind == StepKind::send) elements += step.region.length();
  return elements;
}

}  // namespace

TEST_CASE("a cursor iterates loops in order and omits empty regions") {
  const StepPattern piece{.kind = StepKind::send,
                          .peer = 3,
                          .to = Buffer::output,
                          .from = Buffer::input,
                          .offset = {0, 10, 4},
                          .length = 4,
                          .end = {6, 10, 0},
                          .from_shift = {}};
  StepPattern last = piece;
  last.kind = StepKind::reduce;
  last.peer = -1;
  last.offset = {2, 0, 0};
  last.end = {5, 0, 0};
  last.from = Buffer::scratch;
  last.from_shift = {7};
  const Schedule schedule{
      .algorithm = "made up",
      .loops = {Loop{2, 3, {piece}}, Loop{0, 1, {piece}}, Loop{1, 1, {}}, Loop{1, 1, {last}}},
      .scratch_elements = 12};
  CHECK(texts_of(schedule) ==
        std::vector<std::string>{"send input[0, 4) to rank 3", "send input[4, 6) to rank 3",
                                 "send input[10, 14) to rank 3", "send input[14, 16) to rank 3",
                                 "reduce output[2, 5) += scratch[9, 12)"});
}

TEST_CASE("a cursor makes all passes over all loops") {
  const StepPattern send{.kind = StepKind::send,
                         .peer = 2,
                         .from = Buffer::input,
                         .offset = {10, 0, 2, 4},
                         .length = 2,
                         .end = {17}};
  const StepPattern copy{.kind = StepKind::copy,
                         .to = Buffer::scratch,
                         .from = Buffer::input,
                         .offset = {0, 0, 0, 0},
                         .length = 3,
                         .end = {7, 0, 0, -4},
                         .from_shift = {10, 0, 0, 4}};
  const Schedule schedule{.algorithm = "made up",
                          .loops = {Loop{1, 2, {send}}, Loop{1, 1, {copy}}},
                          .scratch_elements = 3,
                          .passes = 2};
  CHECK(texts_of(schedule) ==
        std::vector<std::string>{"send input[10, 12) to rank 2", "send input[12, 14) to rank 2",
                                 "copy scratch[0, 3) = input[10, 13)",
                                 "send input[14, 16) to rank 2", "send input[16, 17) to rank 2",
                                 "copy scratch[0, 3) = input[14, 17)"});
}

TEST_CASE("peers and sources move with the outer loop") {
  const StepPattern take{.kind = StepKind::recv_reduce,
                         .peer = 5,
                         .to = Buffer::scratch,
                         .from = Buffer::input,
                         .offset = {0, 2, 0},
                         .length = 2,
                         .end = {100},
                         .from_shift = {20, -4, 0},
                         .peer_step = -2};
  CHECK(texts_of({.algorithm = "made up", .loops = {Loop{3, 1, {take}}}}) ==
        std::vector<std::string>{"recv_reduce scratch[0, 2) = input[20, 22) + data from rank 5",
                                 "recv_reduce scratch[2, 4) = input[18, 20) + data from rank 3",
                                 "recv_reduce scratch[4, 6) = input[16, 18) + data from rank 1"});
}

TEST_CASE("combine reads from the first element of its first part to the last of its last") {
  const StepPattern combine{.kind = StepKind::combine,
                            .to = Buffer::output,
                            .from = Buffer::scratch,
                            .offset = {30, 0, 0, 5},
                            .length = 5,
                            .end = {38},
                            .from_shift = {-30, 0, 0, -5},
                            .parts = 3,
                            .stride = 5};
  const Schedule schedule{.algorithm = "made up",
                          .loops = {Loop{1, 1, {combine}}},
                          .scratch_elements = 15,
                          .passes = 2};
  CHECK(texts_of(schedule) ==
        std::vector<std::string>{"combine output[30, 35) = 3 parts of scratch[0, 15), one each 5",
                                 "combine output[35, 38) = 3 parts of scratch[0, 13), one each 5"});
}

TEST_CASE("rounds that follow each other by constant strides become one loop") {
  Schedule schedule;
  const auto add = [&](int peer, std::int64_t begin, std::int64_t from, std::int64_t chunks = 2) {
    append_round(schedule, {1,
                            chunks,
                            {send_to(peer, Buffer::input, chunk_of({begin, begin + 8}, 4)),
                             copy_of(Buffer::output, {begin, begin + 8}, Buffer::input, from)}});
  };
  const auto plain = [&] {
    std::vector<std::string> texts;
    for (const Loop& loop : schedule.loops) {
      const auto some = texts_of({.algorithm = "", .loops = {loop}});
      texts.insert(texts.end(), some.begin(), some.end());
    }
    return texts;
  };
  std::vector<std::string> expected;
  const auto expect = [&](int peer, std::int64_t begin, std::int64_t from) {
    Schedule alone;
    std::swap(alone, schedule);
    add(peer, begin, from);
    const auto some = plain();
    expected.insert(expected.end(), some.begin(), some.end());
    std::swap(alone, schedule);
    add(peer, begin, from);
  };
  for (std::int64_t i = 0; i < 5; ++i) expect(7 - static_cast<int>(i), 8 * i, 100 - 24 * i);
  CHECK(schedule.loops.size() == 1);
  expect(7, 40, 100);  // other strides
  CHECK(schedule.loops.size() == 2);
  expect(7, 40, 100);  // the same again: strides of 0
  expect(7, 40, 100);
  CHECK(schedule.loops.size() == 2);
  CHECK(plain() == expected);
  add(7, 40, 100, 1);  // another number of chunks
  CHECK(schedule.loops.size() == 3);
  append_round(schedule, {1, 0, {send_to(1, Buffer::input, whole(4))}});
  append_round(schedule, {1, 1, {}});
  CHECK(schedule.loops.size() == 3);
}

TEST_CASE("every kind of step has its own text") {
  const Step step{.kind = StepKind::send,
                  .peer = 1,
                  .to = Buffer::output,
                  .from = Buffer::input,
                  .region = {0, 2},
                  .from_region = {4, 6},
                  .parts = 3,
                  .stride = 2};
  const auto text = [&](StepKind kind) {
    Step other = step;
    other.kind = kind;
    return describe(other);
  };
  CHECK(text(StepKind::send) == "send input[0, 2) to rank 1");
  CHECK(text(StepKind::recv) == "recv output[0, 2) from rank 1");
  CHECK(text(StepKind::recv_reduce) == "recv_reduce output[0, 2) = input[4, 6) + data from rank 1");
  CHECK(text(StepKind::copy) == "copy output[0, 2) = input[4, 6)");
  CHECK(text(StepKind::reduce) == "reduce output[0, 2) += input[4, 6)");
  CHECK(text(StepKind::combine) == "combine output[0, 2) = 3 parts of input[4, 6), one each 2");
}

TEST_CASE("schedules stay short for many ranks and many bytes") {
  for (const int size : {1, 2, 3, 64, 1000, 4096}) {
    for (int rank = 0; rank < size; rank += size / 7 + 1) {
      const ScheduleArguments problem{.rank = rank,
                                      .size = size,
                                      .root = size > 1 ? 1 : 0,
                                      .count = std::int64_t{1} << 28,
                                      .chunk = std::int64_t{1} << 14,
                                      .in_place = false};
      for (const Operation operation : operations) {
        for (const std::string_view algorithm : algorithms_of(operation)) {
          // The root's schedule of this algorithm has one pattern per peer.
          if (algorithm == "scatter_ring" && rank == problem.root) continue;
          require_short(make(operation, algorithm, problem), size);
        }
      }
    }
  }
}

TEST_CASE("each rank sends the documented number of bytes") {
  const int size = 7;
  const std::int64_t count = 336;  // divisible by 7, 6 and 8
  for (int rank = 0; rank < size; ++rank) {
    const ScheduleArguments problem{
        .rank = rank, .size = size, .root = 0, .count = count, .chunk = 8, .in_place = true};
    const auto by = [&](Operation operation, std::string_view algorithm) {
      return sent(make(operation, algorithm, problem));
    };
    const bool root = rank == 0;
    const std::int64_t others = size - 1;
    for (const auto algorithm : {"ring", "rabenseifner", "slices"})
      CHECK(by(Operation::all_reduce, algorithm) == 2 * others * count / size);
    CHECK(by(Operation::all_reduce, "gathered") == others * count);
    CHECK(by(Operation::broadcast, "chain") == (rank == size - 1 ? 0 : count));
    CHECK(by(Operation::broadcast, "scatter_ring") == (root ? count : (size - 2) * count / others));
    CHECK(by(Operation::fan_out, "direct") == (root ? others * count : 0));
    for (const auto algorithm : {"binomial", "chain"})
      CHECK(by(Operation::reduce, algorithm) == (root ? 0 : count));
    CHECK(by(Operation::reduce, "slices") == (root ? others * count / size : count));
    for (const auto algorithm : {"bruck", "ring"})
      CHECK(by(Operation::all_gather, algorithm) == others * count);
    for (const auto algorithm : {"recursive_halving", "ring", "pairwise"})
      CHECK(by(Operation::reduce_scatter, algorithm) == others * count);
    CHECK(by(Operation::gather, "direct") == (root ? 0 : count));
    CHECK(by(Operation::scatter, "direct") == (root ? others * count : 0));
    CHECK(by(Operation::all_to_all, "pairwise") == others * count);
    CHECK(by(Operation::all_to_all, "bruck") == (3 + 3 + 3) * count);
  }
}

TEST_CASE(
    "scratch is as large as promised, and no larger for larger buffers where chunks are moved") {
  const std::int64_t chunk = 10;
  const std::int64_t block = 100 * chunk;
  ScheduleArguments problem{
      .rank = 1, .size = 7, .root = 0, .count = block, .chunk = chunk, .in_place = false};
  const auto needs = [&](Operation operation, std::string_view algorithm) {
    return make(operation, algorithm, problem).scratch_elements;
  };
  for (const std::int64_t larger : {1, 2, 10}) {
    problem.count = larger * block;
    CHECK(needs(Operation::reduce, "chain") == 8 * chunk);
    CHECK(needs(Operation::reduce_scatter, "ring") == 16 * chunk);
    CHECK(needs(Operation::reduce_scatter, "pairwise") == 7 * chunk);
    CHECK(needs(Operation::all_to_all, "pairwise") == 0);
    problem.in_place = true;
    CHECK(needs(Operation::all_to_all, "pairwise") == 8 * chunk);
    problem.in_place = false;
    problem.count *= 7;
    CHECK(needs(Operation::all_reduce, "slices") == 7 * chunk);
    CHECK(needs(Operation::reduce, "slices") == 8 * chunk);
    CHECK(needs(Operation::all_reduce, "ring") == 0);
    CHECK(needs(Operation::all_reduce, "rabenseifner") == 0);
  }
  problem.count = block;
  CHECK(needs(Operation::all_reduce, "gathered") == 7 * block);
  CHECK(needs(Operation::all_gather, "bruck") == 0);
  CHECK(needs(Operation::all_gather, "ring") == 0);
  CHECK(needs(Operation::reduce_scatter, "recursive_halving") == 4 * block);
  CHECK(needs(Operation::all_to_all, "bruck") == (7 + 3 + 3) * block);
  problem.rank = 4;  // its subtree: 4, 5, 6
  CHECK(needs(Operation::reduce, "binomial") == block);
  CHECK(needs(Operation::reduce, "gathered") == 2 * block);
  CHECK(needs(Operation::gather, "binomial") == 2 * block);
  CHECK(needs(Operation::scatter, "binomial") == 2 * block);
  problem.rank = 0;
  CHECK(needs(Operation::reduce, "binomial") == 0);
  CHECK(needs(Operation::reduce, "gathered") == 7 * block);
  CHECK(needs(Operation::reduce, "slices") == 7 * chunk);
  CHECK(needs(Operation::gather, "binomial") == 0);
  CHECK(needs(Operation::scatter, "binomial") == 0);
}

}  // namespace tutti::algorithm::test
