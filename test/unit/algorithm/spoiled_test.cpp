// Spoiled schedules: the checker finds every one, and names the step.
#include <functional>

#include "problems.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

struct Job {
  Operation operation;
  Make make;
  std::string_view algorithm;
  bool in_place = true;
};

const Job jobs[] = {{Operation::broadcast, make_broadcast, "binomial"},
                    {Operation::broadcast, make_broadcast, "chain"},
                    {Operation::broadcast, make_broadcast, "scatter_ring"},
                    {Operation::fan_out, make_fan_out, "direct"},
                    {Operation::all_reduce, make_all_reduce, "recursive_doubling"},
                    {Operation::all_reduce, make_all_reduce, "recursive_doubling", false},
                    {Operation::all_reduce, make_all_reduce, "ring"},
                    {Operation::all_reduce, make_all_reduce, "ring", false}};

Problem problem_of(const Job& job, int size) {
  return {.rank = 0,
          .size = size,
          .root = 0,
          .count = 48,
          .chunk = 2,
          .in_place = job.in_place,
          .host = {}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Spoil = std::function<void(std::vector<StepPattern>& steps, std::size_t index)>;

std::string text_after(const Job& job, int size, std::size_t rank, std::size_t loop,
                       std::size_t index, const Spoil& spoil, const CheckOptions& options) {
  const Problem problem = problem_of(job, size);
  auto schedules =
      schedules_of(job.make, {.algorithm = job.algorithm, .problem = problem, .options = options});
  spoil(schedules[rank].loops[loop].steps, index);
  return check(schedules, expectation_of(job.operation, problem), options).value_or("");
}

// Spoils each pattern of each loop of each rank in turn.
void require_all_found(const Job& job, int size, const std::string& what, const Spoil& spoil) {
  const auto schedules = schedules_of(
      job.make, {.algorithm = job.algorithm, .problem = problem_of(job, size), .options = {}});
  std::uint64_t run = 0;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    for (std::size_t loop = 0; loop < schedules[rank].loops.size(); ++loop) {
      for (std::size_t index = 0; index < schedules[rank].loops[loop].steps.size(); ++index) {
        const std::string text =
            text_after(job, size, rank, loop, index, spoil, options_for(run++));
        INFO(job.algorithm << ", " << size << " ranks: " << what << " in rank " << rank << " loop "
                           << loop << " pattern " << index << ": " << text);
        // Where the only step that wrote to an element is gone, there is none to name.
        const bool named = contains(text, ", step ") || contains(text, " from the start: ") ||
                           contains(text, " was never written");
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

}  // namespace

TEST_CASE("a dropped, doubled or displaced step is found wherever it is") {
  for (const Job& job : jobs) {
    for (const int size : {2, 3, 5, 8}) {
      require_all_found(job, size, "dropped", drop);
      require_all_found(job, size, "doubled", double_it);
      require_all_found(job, size, "region moved", [](auto& steps, std::size_t index) {
        ++steps[index].offset.start;
        ++steps[index].end.start;
      });
      require_all_found(job, size, "region cut short",
                        [](auto& steps, std::size_t index) { --steps[index].length; });
      require_all_found(job, size, "wrong peer", [size](auto& steps, std::size_t index) {
        StepPattern& step = steps[index];
        if (step.peer < 0)
          step.from_shift += 1;
        else
          step.peer = (step.peer + 1) % size;
      });
    }
  }
}

TEST_CASE("a spoiled schedule is described by its step") {
  const CheckOptions options{.window = 2, .seed = 0};
  const auto text = [&](const Job& job, int size, std::size_t rank, std::size_t loop,
                        std::size_t index, const Spoil& spoil) {
    return text_after(job, size, rank, loop, index, spoil, options);
  };
  const Job& chain = jobs[1];
  const Job& doubling = jobs[4];
  const Job& ring_apart = jobs[7];
  CHECK(text(chain, 4, 3, 0, 0, drop) ==
        "unmatched: rank 2, step 1 (send output[0, 2) to rank 3): rank 3 has no step left for it");
  CHECK(text(chain, 4, 1, 0, 0, [](auto& steps, std::size_t) { std::swap(steps[0], steps[1]); }) ==
        "rank 1, step 0 (send output[0, 2) to rank 2): reads element 0, which nothing has written");
  CHECK(contains(text(doubling, 4, 1, 0, 2, double_it),
                 "rank 1, step 3 (reduce output[0, 2) += "
                 "scratch[0, 2)): element 0: adds ranks "
                 "{0} to ranks {0-1}"));
  CHECK(contains(text(doubling, 4, 1, 0, 0,
                      [](auto& steps, std::size_t) {
                        steps[0].offset.start = steps[0].end.start = 48;
                        steps[0].end.start = 50;
                      }),
                 "rank 1, step 0 (send output[48, 50) to rank 0): the buffer has 48 elements"));
  CHECK(contains(text(ring_apart, 4, 2, 0, 1,
                      [](auto& steps, std::size_t index) { steps[index].to = Buffer::input; }),
                 "writes into input"));
  CHECK(contains(
      text(ring_apart, 4, 2, 0, 1, [](auto& steps, std::size_t index) { steps[index].peer = 2; }),
      "rank 2, step 1 (recv_reduce output[12, 14) = input[12, 14) + data from rank 2): "
      "no such peer"));
}

TEST_CASE("adding on arrival to what is being sent is a deadlock") {
  const Job& job = jobs[4];
  auto schedules = schedules_of(
      job.make, {.algorithm = job.algorithm, .problem = problem_of(job, 2), .options = {}});
  for (Schedule& schedule : schedules) {
    auto& steps = schedule.loops[0].steps;
    steps.pop_back();
    steps[1].kind = StepKind::recv_reduce;
    steps[1].to = steps[1].from = Buffer::output;
  }
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto fault =
        check(schedules, expectation_of(job.operation, problem_of(job, 2)), {64, seed});
    CHECK(fault.value_or("") ==
          "deadlock: rank 0, step 0 (send output[0, 2) to rank 1); "
          "rank 1, step 0 (send output[0, 2) to rank 0)");
  }
}

TEST_CASE("a send and a recv in one go need a window of two") {
  const Job& job = jobs[6];
  const Problem problem = problem_of(job, 4);
  const auto schedules =
      schedules_of(job.make, {.algorithm = job.algorithm, .problem = problem, .options = {}});
  const Expectation expectation = expectation_of(job.operation, problem);
  CHECK(contains(check(schedules, expectation, {1, 0}).value_or(""), "deadlock: rank 0, step 0"));
  CHECK(check(schedules, expectation, {2, 0}).value_or("").empty());
  CHECK_THROWS_AS(check(schedules, expectation, {0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(check(schedules, expectation, {65, 0}), std::invalid_argument);
}

TEST_CASE("a barrier that forgets what it has heard is found") {
  const Problem problem{
      .rank = 0, .size = 8, .root = 0, .count = 0, .chunk = 1, .in_place = true, .host = {}};
  auto schedules =
      schedules_of(make_barrier, {.algorithm = "dissemination", .problem = problem, .options = {}});
  drop(schedules[2].loops[1].steps, 2);
  const auto fault = check(schedules, expectation_of(Operation::barrier, problem));
  CHECK(contains(fault.value_or(""), "leaves the barrier after hearing only of ranks {"));
  CHECK(contains(fault.value_or(""), ", step "));
}

}  // namespace tutti::algorithm::test
