// Corrupted schedules: the checker detects each and names the step.
#include <algorithm>
#include <functional>
#include <set>

#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

// Every algorithm of every operation, out of place and in place.
std::vector<Case> jobs(int size) {
  std::vector<Case> all;
  for (const Operation operation :
       {Operation::broadcast, Operation::fan_out, Operation::all_reduce, Operation::reduce,
        Operation::all_gather, Operation::reduce_scatter, Operation::gather, Operation::scatter,
        Operation::all_to_all}) {
    for (const std::string_view algorithm : algorithms_of(operation)) {
      for (const bool in_place : {true, false})
        all.push_back({.operation = operation,
                       .algorithm = algorithm,
                       .problem = {.size = size, .count = 48, .chunk = 2, .in_place = in_place}});
    }
  }
  return all;
}

// The same on two hosts, whose ranks share memory on one of them or on both.
std::vector<Case> jobs_on_hosts() {
  std::vector<Case> all;
  for (const std::set<int>& sharing : {std::set<int>{0, 1}, {1}}) {
    for (Case c : jobs(5)) {
      c.problem.host = {0, 1, 0, 1, 1};
      c.problem.max_published = 30;
      c.sharing = sharing;
      all.push_back(std::move(c));
    }
  }
  return all;
}

Case job(Operation operation, std::string_view algorithm, int size, bool in_place = true) {
  return {.operation = operation,
          .algorithm = algorithm,
          .problem = {.size = size, .count = 48, .chunk = 2, .in_place = in_place}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Corrupt = std::function<void(std::vector<StepPattern>& steps, std::size_t index)>;

std::string text_after(const Case& c, std::size_t rank, std::size_t loop, std::size_t index,
                       const Corrupt& corrupt) {
  auto schedules = schedules_of(c);
  corrupt(schedules[rank].loops[loop].steps, index);
  return check(schedules, expectation_of(c), c.options).value_or("");
}

bool opens_or_closes_a_chunk(const StepPattern& step) {
  return step.kind == StepKind::publish || step.kind == StepKind::release;
}

bool makes_no_step(const StepPattern& step) {
  if (opens_or_closes_a_chunk(step)) return false;
  return std::min(step.length, step.end.start - step.offset.start) <= 0;
}

using Spared = bool (*)(const StepPattern&);

bool nothing(const StepPattern&) {
  return false;
}

// Corrupts each pattern of each loop of each rank in turn.
void require_all_found(Case c, const std::string& what, const Corrupt& corrupt,
                       Spared spared = nothing) {
  const auto schedules = schedules_of(c);
  std::uint64_t run = 0;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    for (std::size_t loop = 0; loop < schedules[rank].loops.size(); ++loop) {
      const auto& steps = schedules[rank].loops[loop].steps;
      for (std::size_t index = 0; index < steps.size(); ++index) {
        if (makes_no_step(steps[index]) || spared(steps[index])) continue;
        c.options = options_for(run++);
        const std::string text = text_after(c, rank, loop, index, corrupt);
        INFO(text_of(c) << ": " << what << " in rank " << rank << " loop " << loop << " pattern "
                        << index << ": " << text);
        // If the only step that wrote an element is gone, there is none to name.
        const bool named = contains(text, ", step ") || contains(text, " from the start: ") ||
                           contains(text, " was never written") || contains(text, " chunks");
        if (!named) FAIL("no step is named");
      }
    }
  }
}

void drop(std::vector<StepPattern>& steps, std::size_t index) {
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(index));
}

void double_it(std::vector<StepPattern>& steps, std::size_t index) {
  const StepPattern copy = steps[index];
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(index), copy);
}

// A repeated copy of the same data is harmless.
bool writes_the_same_again(const StepPattern& step) {
  return step.kind == StepKind::copy || step.kind == StepKind::combine;
}

bool is_of_no_chunk(const StepPattern& step) {
  return !opens_or_closes_a_chunk(step) && !reads_published(step.kind);
}

bool reads_nothing_published(const StepPattern& step) {
  return !reads_published(step.kind);
}

// A repeated read is harmless, also with a reduction from another buffer.
bool is_of_no_chunk_or_reads_again(const StepPattern& step) {
  return is_of_no_chunk(step) || step.kind == StepKind::read ||
         (step.kind == StepKind::read_reduce && step.to != step.from);
}

// Removes the last element that the pattern has in its first iteration.
void cut_short(std::vector<StepPattern>& steps, std::size_t index) {
  StepPattern& step = steps[index];
  step.length = std::min(step.length, step.end.start - step.offset.start) - 1;
}

}  // namespace

TEST_CASE("a dropped, doubled or displaced step is detected wherever it is", "[sweep]") {
  for (const int size : {2, 3, 5, 8}) {
    for (const Case& c : jobs(size)) {
      require_all_found(c, "dropped", drop);
      require_all_found(c, "doubled", double_it, writes_the_same_again);
      require_all_found(c, "region moved", [](auto& steps, std::size_t index) {
        ++steps[index].offset.start;
        ++steps[index].end.start;
      });
      require_all_found(c, "region cut short", cut_short);
      require_all_found(c, "wrong peer", [size](auto& steps, std::size_t index) {
        StepPattern& step = steps[index];
        if (step.peer < 0)
          step.from_shift.start += 1;
        else
          step.peer = (step.peer + 1) % size;
      });
    }
  }
}

TEST_CASE("a dropped, doubled or displaced step of a chunk is detected wherever it is", "[sweep]") {
  for (const Case& c : jobs_on_hosts()) {
    require_all_found(c, "dropped", drop, is_of_no_chunk);
    require_all_found(c, "doubled", double_it, is_of_no_chunk_or_reads_again);
    require_all_found(
        c, "remote region moved",
        [](auto& steps, std::size_t index) { ++steps[index].remote_shift.start; },
        reads_nothing_published);
    require_all_found(c, "region cut short", cut_short, reads_nothing_published);
    require_all_found(
        c, "wrong peer",
        [](auto& steps, std::size_t index) { steps[index].peer = (steps[index].peer + 1) % 5; },
        reads_nothing_published);
  }
}

TEST_CASE("a piece that is longer than a chunk holds is detected") {
  for (Case c : jobs_on_hosts()) {
    const auto schedules = schedules_of(c);
    auto expectation = expectation_of(c);
    const bool publishes = std::any_of(schedules.begin(), schedules.end(),
                                       [](const auto& one) { return published_chunks(one) > 0; });
    if (!publishes) continue;
    REQUIRE(!check(schedules, expectation, c.options));
    expectation.max_published = 1;
    INFO(text_of(c));
    CHECK(contains(check(schedules, expectation, c.options).value_or(""),
                   "publishes more than 1 elements in one chunk"));
  }
}

TEST_CASE("the error names the corrupted step") {
  const auto text = [&](Case c, std::size_t rank, std::size_t loop, std::size_t index,
                        const Corrupt& corrupt) {
    c.options = {.window = 2, .seed = 0};
    return text_after(c, rank, loop, index, corrupt);
  };
  const Case chain = job(Operation::broadcast, "chain", 4);
  const Case doubling = job(Operation::all_reduce, "recursive_doubling", 4);
  const Case ring_apart = job(Operation::all_reduce, "ring", 4, false);
  CHECK(text(chain, 3, 0, 0, drop) ==
        "unmatched: rank 2, step 1 (send output[0, 2) to rank 3): rank 3 has no step left for it");
  CHECK(text(chain, 1, 0, 0, [](auto& steps, std::size_t) { std::swap(steps[0], steps[1]); }) ==
        "rank 1, step 0 (send output[0, 2) to rank 2): reads element 0, which nothing has written");
  CHECK(contains(text(doubling, 1, 0, 2, double_it),
                 "rank 1, step 3 (reduce output[0, 2) += "
                 "scratch[0, 2)): element 0: adds ranks "
                 "{0} to ranks {0-1}"));
  CHECK(contains(text(doubling, 1, 0, 0,
                      [](auto& steps, std::size_t) {
                        steps[0].offset.start = steps[0].end.start = 48;
                        steps[0].end.start = 50;
                      }),
                 "rank 1, step 0 (send output[48, 50) to rank 0): the buffer has 48 elements"));
  CHECK(contains(text(ring_apart, 2, 0, 1,
                      [](auto& steps, std::size_t index) { steps[index].to = Buffer::input; }),
                 "writes into input"));
  CHECK(contains(
      text(ring_apart, 2, 0, 1, [](auto& steps, std::size_t index) { steps[index].peer = 2; }),
      "rank 2, step 1 (recv_reduce output[12, 14) = input[12, 14) + data from rank 2): "
      "no such peer"));
}

TEST_CASE("a recv_reduce into a region being sent is a deadlock") {
  const Case c = job(Operation::all_reduce, "recursive_doubling", 2);
  auto schedules = schedules_of(c);
  for (Schedule& schedule : schedules) {
    auto& steps = schedule.loops[0].steps;
    steps.pop_back();
    steps[1].kind = StepKind::recv_reduce;
    steps[1].to = steps[1].from = Buffer::output;
  }
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto fault = check(schedules, expectation_of(c), {64, seed});
    CHECK(fault.value_or("") ==
          "deadlock: rank 0, step 0 (send output[0, 2) to rank 1); "
          "rank 1, step 0 (send output[0, 2) to rank 0)");
  }
}

TEST_CASE("a concurrent send and recv need a window of two") {
  const Case c = job(Operation::all_reduce, "ring", 4);
  const auto schedules = schedules_of(c);
  const Expectation expectation = expectation_of(c);
  CHECK(contains(check(schedules, expectation, {1, 0}).value_or(""), "deadlock: rank 0, step 0"));
  CHECK(check(schedules, expectation, {2, 0}).value_or("").empty());
  CHECK_THROWS_AS(check(schedules, expectation, {0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(check(schedules, expectation, {65, 0}), std::invalid_argument);
}

TEST_CASE("a barrier that drops a notification is detected") {
  const Case c{
      .operation = Operation::barrier, .algorithm = "dissemination", .problem = {.size = 8}};
  auto schedules = schedules_of(c);
  drop(schedules[2].loops[1].steps, 2);
  const auto fault = check(schedules, expectation_of(c));
  CHECK(contains(fault.value_or(""), "leaves the barrier after hearing only of ranks {"));
  CHECK(contains(fault.value_or(""), ", step "));
}

TEST_CASE("a part that is no contribution, or another rank's, is detected") {
  const Case c = job(Operation::all_reduce, "gathered", 3, false);
  const auto fault_after = [&](const std::function<void(StepPattern&)>& corrupt) {
    auto schedules = schedules_of(c);
    for (Schedule& schedule : schedules) corrupt(schedule.loops.back().steps.back());
    return check(schedules, expectation_of(c)).value_or("");
  };
  REQUIRE(fault_after([](StepPattern&) {}).empty());
  CHECK(contains(fault_after([](StepPattern& combine) {
                   combine.from_shift.start += 96;
                   combine.stride = -48;
                 }),
                 "part 0 has contributions of ranks {2}"));
  CHECK(contains(fault_after([](StepPattern& combine) { combine.parts = 2; }),
                 "ranks {0-1} instead of all"));
  CHECK(contains(fault_after([](StepPattern& combine) {
                   combine.length = 10;
                   combine.end.start = 10;
                   combine.stride = 49;
                 }),
                 "part 1 has element 1 beside element 0"));
  CHECK(contains(fault_after([](StepPattern& combine) { combine.to = Buffer::scratch; }),
                 "the result overlaps the parts"));
}

TEST_CASE("a part that contains other contributions is detected") {
  const Case c = job(Operation::reduce_scatter, "pairwise", 3, false);
  auto schedules = schedules_of(c);
  auto& steps = schedules[1].loops[0].steps;
  REQUIRE(steps[1].kind == StepKind::recv);
  steps[1].kind = StepKind::recv_reduce;
  steps[1].from = Buffer::input;
  steps[1].from_shift = Affine{48, 0, 0, 2} - steps[1].offset;
  CHECK(contains(check(schedules, expectation_of(c)).value_or(""),
                 "part 0 has contributions of ranks {0-1}"));
}

TEST_CASE("a reduce_scatter in place leaves the other blocks as they are") {
  const Case c = job(Operation::reduce_scatter, "recursive_halving", 4);
  auto schedules = schedules_of(c);
  // Halving that keeps its sums in output: correct except for what it leaves there.
  Schedule& corrupted = schedules[1];
  StepPattern& take = corrupted.loops.front().steps[1];
  REQUIRE(take.kind == StepKind::recv_reduce);
  StepPattern copy = take;
  copy.kind = StepKind::copy;
  copy.peer = -1;
  copy.to = Buffer::output;
  copy.from = Buffer::scratch;
  copy.offset.start = copy.end.start = 96;
  copy.offset.inner = 0;
  copy.length = 48;
  copy.end.start = 144;
  copy.from_shift = {-48};
  corrupted.loops.insert(corrupted.loops.begin() + 1, Loop{1, 1, {copy}});
  const std::string text = check(schedules, expectation_of(c)).value_or("");
  INFO(text);
  CHECK(contains(text, "rank 1, step "));
  CHECK(contains(text,
                 ": element 96 of output ends with contributions of ranks {1, 3} instead of "
                 "ranks {1}"));
}

TEST_CASE("output that a rank does not have is not written") {
  const Case c = job(Operation::gather, "direct", 3);
  auto schedules = schedules_of(c);
  StepPattern copy = schedules[1].loops[0].steps[0];
  copy.kind = StepKind::copy;
  copy.peer = -1;
  copy.to = Buffer::output;
  schedules[1].loops.push_back({1, 1, {copy}});
  CHECK(contains(check(schedules, expectation_of(c)).value_or(""), "the buffer has 0 elements"));
}

}  // namespace tutti::algorithm::test
