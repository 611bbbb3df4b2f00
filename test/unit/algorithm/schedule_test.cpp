// Schedules as data: the cursor, the text of a step, and sizes that do not grow with ranks or
// bytes.
#include <bit>

#include "problems.hpp"
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

Problem large_problem(int size, int rank) {
  return {.rank = rank,
          .size = size,
          .root = 1,
          .count = std::int64_t{1} << 28,
          .chunk = std::int64_t{1} << 14,
          .in_place = false,
          .host = {}};
}

void require_short(const Schedule& schedule, int size) {
  INFO(schedule.algorithm << " with " << size << " ranks");
  const auto log = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size)));
  CHECK(schedule.loops.size() <= log + 8);
  CHECK(patterns_in(schedule) <= 3 * log + 24);
}

}  // namespace

TEST_CASE("a cursor walks loops in order and leaves empty regions out") {
  const StepPattern piece{.kind = StepKind::send,
                          .peer = 3,
                          .to = Buffer::output,
                          .from = Buffer::input,
                          .offset = {0, 10, 4},
                          .length = 4,
                          .end = {6, 10, 0},
                          .from_shift = 0};
  StepPattern last = piece;
  last.kind = StepKind::reduce;
  last.peer = -1;
  last.offset = {2, 0, 0};
  last.end = {5, 0, 0};
  last.from = Buffer::scratch;
  last.from_shift = 7;
  const Schedule schedule{
      .algorithm = "made up",
      .loops = {Loop{2, 3, {piece}}, Loop{0, 1, {piece}}, Loop{1, 1, {}}, Loop{1, 1, {last}}},
      .scratch_elements = 12};
  CHECK(texts_of(schedule) ==
        std::vector<std::string>{"send input[0, 4) to rank 3", "send input[4, 6) to rank 3",
                                 "send input[10, 14) to rank 3", "send input[14, 16) to rank 3",
                                 "reduce output[2, 5) += scratch[9, 12)"});
}

TEST_CASE("publish and await always count") {
  StepPattern pattern;
  pattern.kind = StepKind::publish;
  pattern.peer = 2;
  pattern.offset.start = 5;
  Schedule schedule{
      .algorithm = "made up", .loops = {Loop{1, 1, {pattern}}}, .scratch_elements = 0};
  CHECK(texts_of(schedule) == std::vector<std::string>{"publish slot 5"});
  schedule.loops[0].steps[0].kind = StepKind::await;
  CHECK(texts_of(schedule) == std::vector<std::string>{"await slot 5 of rank 2"});
}

TEST_CASE("every kind of step has a text of its own") {
  const Step step{.kind = StepKind::send,
                  .peer = 1,
                  .to = Buffer::output,
                  .from = Buffer::input,
                  .region = {0, 2},
                  .from_region = {4, 6}};
  const auto text = [&](StepKind kind) {
    Step other = step;
    other.kind = kind;
    return describe(other);
  };
  CHECK(text(StepKind::send) == "send input[0, 2) to rank 1");
  CHECK(text(StepKind::recv) == "recv output[0, 2) from rank 1");
  CHECK(text(StepKind::recv_reduce) == "recv_reduce output[0, 2) = input[0, 2) + data from rank 1");
  CHECK(text(StepKind::copy) == "copy output[0, 2) = input[4, 6)");
  CHECK(text(StepKind::reduce) == "reduce output[0, 2) += input[4, 6)");
  CHECK(text(StepKind::read_from) == "read output[0, 2) = input[0, 2) of rank 1");
  CHECK(text(StepKind::reduce_from) == "reduce output[0, 2) += input[0, 2) of rank 1");
}

TEST_CASE("schedules stay short for many ranks and many bytes") {
  for (const int size : {1, 2, 3, 64, 1000, 4096}) {
    for (int rank = 0; rank < size; rank += size / 7 + 1) {
      const Problem problem = large_problem(size, rank);
      for (const std::string_view algorithm : all_reduce_algorithms())
        require_short(make_all_reduce(algorithm, problem), size);
      require_short(make_barrier("dissemination", problem), size);
      require_short(make_broadcast("binomial", problem), size);
      require_short(make_broadcast("chain", problem), size);
      // The root of these has one pattern a peer.
      if (rank == problem.root) continue;
      require_short(make_broadcast("scatter_ring", problem), size);
      require_short(make_fan_out("direct", problem), size);
    }
  }
}

TEST_CASE("each rank sends the bytes that the figures promise") {
  const int size = 7;
  const std::int64_t count = 7 * 6 * 8;
  for (int rank = 0; rank < size; ++rank) {
    const Problem problem{.rank = rank,
                          .size = size,
                          .root = 0,
                          .count = count,
                          .chunk = 8,
                          .in_place = true,
                          .host = {}};
    const auto sent = [](const Schedule& schedule) {
      std::int64_t elements = 0;
      Cursor cursor(schedule);
      for (Step step; cursor.next(step);)
        if (step.kind == StepKind::send) elements += step.region.length();
      return elements;
    };
    CHECK(sent(make_all_reduce("ring", problem)) == 2 * (size - 1) * count / size);
    CHECK(sent(make_broadcast("chain", problem)) == (rank == size - 1 ? 0 : count));
    CHECK(sent(make_broadcast("scatter_ring", problem)) ==
          (rank == 0 ? count : (size - 2) * count / (size - 1)));
    CHECK(sent(make_fan_out("direct", problem)) == (rank == 0 ? (size - 1) * count : 0));
  }
}

}  // namespace tutti::algorithm::test
