// Choice of algorithms, and unknown names.
#include <algorithm>
#include <cmath>
#include <set>

#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr Operation with_algorithms[] = {
    Operation::barrier,        Operation::finalize,     Operation::split,
    Operation::broadcast,      Operation::fan_out,      Operation::all_reduce,
    Operation::reduce,         Operation::all_gather,   Operation::reduce_scatter,
    Operation::gather,         Operation::scatter,      Operation::all_to_all,
    Operation::all_gather_v,   Operation::gather_v,     Operation::reduce_scatter_v,
    Operation::scatter_v,      Operation::all_to_all_v, Operation::scan,
    Operation::exclusive_scan,
};

constexpr std::int64_t mib = std::int64_t{1} << 20;

}  // namespace

TEST_CASE("the chosen algorithm exists, respects rank order, and makes a schedule") {
  for (const Operation operation : with_algorithms) {
    for (const int size : {1, 2, 3, 16, 1000}) {
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{4}, mib, 1024 * mib}) {
        for (const bool in_rank_order : {false, true}) {
          const ScheduleArguments problem{.size = size, .count = count, .chunk = 1024};
          const std::string_view algorithm =
              choose(operation, problem, {.element_bytes = 2, .in_rank_order = in_rank_order});
          INFO(name(operation) << " " << algorithm);
          CHECK(has(algorithms_of(operation, in_rank_order), algorithm));
          CHECK(has(algorithms_of(operation), algorithm));
          CHECK(make(operation, algorithm, problem).algorithm == algorithm);
        }
      }
    }
  }
}

TEST_CASE("small buffers take few rounds, large ones a pipeline") {
  const auto chosen = [](Operation operation, int size, std::int64_t bytes,
                         bool in_rank_order = false) {
    return choose(operation, {.size = size, .count = bytes / 4},
                  {.element_bytes = 4, .in_rank_order = in_rank_order});
  };
  CHECK(chosen(Operation::broadcast, 4, 4) == "binomial");
  CHECK(chosen(Operation::broadcast, 4, 64 * mib) == "chain");
  CHECK(chosen(Operation::broadcast, 2, 64 * mib) == "direct");
  CHECK(chosen(Operation::all_reduce, 4, 4) == "recursive_doubling");
  CHECK(chosen(Operation::all_reduce, 4, 64 * mib) == "ring");
  CHECK(chosen(Operation::all_reduce, 4, 4, true) == "gathered");
  CHECK(chosen(Operation::all_reduce, 4, 64 * mib, true) == "slices");
  CHECK(chosen(Operation::scan, 4, 4) == "recursive_doubling");
  CHECK(chosen(Operation::scan, 4, 64 * mib) == "chain");
  CHECK(chosen(Operation::exclusive_scan, 4, 64 * mib, true) == "pairwise");
  CHECK(chosen(Operation::reduce, 4, 4) == "binomial");
  CHECK(chosen(Operation::reduce, 4, 64 * mib) == "chain");
  CHECK(chosen(Operation::reduce, 4, 4, true) == "gathered");
  CHECK(chosen(Operation::reduce, 4, 64 * mib, true) == "slices");
  CHECK(chosen(Operation::all_gather, 4, 4) == "bruck");
  CHECK(chosen(Operation::all_gather, 4, mib) == "ring");
  CHECK(chosen(Operation::reduce_scatter, 4, 4) == "recursive_halving");
  CHECK(chosen(Operation::reduce_scatter, 4, mib) == "ring");
  CHECK(chosen(Operation::reduce_scatter, 4, 4, true) == "pairwise");
  CHECK(chosen(Operation::gather, 16, 4) == "binomial");
  CHECK(chosen(Operation::gather, 16, mib) == "direct");
  CHECK(chosen(Operation::scatter, 16, 4) == "binomial");
  CHECK(chosen(Operation::scatter, 2, 4) == "direct");
  CHECK(chosen(Operation::all_to_all, 16, 4) == "bruck");
  CHECK(chosen(Operation::all_to_all, 16, mib) == "pairwise");
  CHECK(chosen(Operation::all_to_all, 4, 4) == "pairwise");
  // One hop per rank does not pay off for a few bytes per rank.
  CHECK(chosen(Operation::broadcast, 4096, mib) == "binomial");
  CHECK(chosen(Operation::reduce, 4096, mib) == "binomial");
  CHECK(chosen(Operation::all_reduce, 4096, mib) == "rabenseifner");
}

TEST_CASE("between hosts the cost model decides, the same on all ranks") {
  const auto chosen = [](Operation operation, const std::vector<int>& host, std::int64_t bytes,
                         const CostModel& costs = {}) {
    ScheduleArguments problem{.size = static_cast<int>(host.size()), .count = bytes / 4};
    problem.host = host;
    problem.max_published = 64 << 10;
    return choose(operation, problem, {.element_bytes = 4, .costs = costs});
  };
  const std::vector<int> four{0, 1, 2, 3};
  const std::vector<int> pairs{0, 0, 1, 1};
  CHECK(chosen(Operation::broadcast, four, 4) == "direct");
  CHECK(chosen(Operation::broadcast, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
               64 << 10) == "binomial");
  CHECK(chosen(Operation::broadcast, four, 16 * mib) == "chain");
  CHECK(chosen(Operation::all_reduce, four, 4) == "recursive_doubling");
  CHECK(chosen(Operation::all_reduce, four, 16 * mib) == "ring");
  CHECK(chosen(Operation::all_reduce, pairs, 16 * mib) == "hierarchical");
  CHECK(chosen(Operation::all_reduce, {0, 1, 0, 1}, 16 * mib) == "hierarchical");
  CHECK(chosen(Operation::all_gather, four, 4) == "bruck");
  CHECK(chosen(Operation::all_gather, four, 4 * mib) == "ring");
  CHECK(chosen(Operation::reduce_scatter, four, 4 * mib) == "ring");
  CHECK(chosen(Operation::all_to_all, four, 4 * mib) == "pairwise");
  CHECK(chosen(Operation::reduce, pairs, 4) == "hierarchical");
  CHECK(chosen(Operation::reduce, four, 4) == "binomial");
  CHECK(chosen(Operation::reduce_scatter, pairs, 4) == "hierarchical");
  CHECK(chosen(Operation::reduce_scatter, pairs, 16 * mib) == "hierarchical");
  CHECK(chosen(Operation::all_to_all, pairs, 4) == "hierarchical");
  CHECK(chosen(Operation::all_to_all, pairs, 4 * mib) == "pairwise");
  CHECK(chosen(Operation::all_gather, pairs, 4) == "hierarchical");
  // A link with high latency needs fewer, longer messages.
  const CostModel slow{.link_latency = 0.1, .link_rate = 1e10};
  CHECK(chosen(Operation::all_reduce, four, mib, slow) == "recursive_doubling");
}

TEST_CASE("blocks of different lengths use shared memory between hosts unless one is much longer") {
  const auto chosen = [](Operation operation, const std::vector<std::int64_t>& counts,
                         const std::vector<int>& host) {
    ScheduleArguments problem{.size = 4, .counts = counts, .host = host};
    problem.max_published = 64 << 10;
    return choose(operation, problem, {.element_bytes = 4});
  };
  const std::vector<int> pairs{0, 0, 1, 1};
  for (const Operation operation : {Operation::all_gather_v, Operation::reduce_scatter_v}) {
    CHECK(chosen(operation, {1000, 900, 1000, 1000}, pairs) == "hierarchical");
    CHECK(chosen(operation, {0, 4 * mib, 0, 0}, pairs) == "ring");
    CHECK(chosen(operation, {1000, 900, 1000, 1000}, {0, 1, 2, 3}) == "ring");
    CHECK(chosen(operation, {1000, 900, 1000, 1000}, {}) == "ring");
  }
}

TEST_CASE("between hosts, calls in the order of ranks are not reduced inside hosts first") {
  const std::vector<int> pairs{0, 0, 1, 1};
  for (const Operation operation :
       {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter}) {
    for (const std::int64_t count : {std::int64_t{1}, 4 * mib}) {
      ScheduleArguments problem{.size = 4, .count = count, .host = pairs};
      const auto name = choose(operation, problem, {.element_bytes = 2, .in_rank_order = true});
      CHECK(has(algorithms_of(operation, true), name));
    }
  }
}

TEST_CASE("a slower link uses shorter chunks") {
  ScheduleArguments problem{.size = 8, .count = 16 * mib};
  problem.host = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto chunk = [&](const CostModel& costs) {
    return choose_chunk(Operation::broadcast, "chain", problem, {.costs = costs});
  };
  CHECK(chunk({.link_rate = 1e8}) == 128 << 10);
  CHECK(chunk({.link_rate = 1e11, .copy_rate = 1e11, .message_cost = 1e-4}) == 1 << 20);
  problem.host = {};
  CHECK(chunk({}) == 256 << 10);
}

TEST_CASE("a cost model is parsed from JSON, and errors are named") {
  const CostModel model = parse_cost_model(R"({"link_gbs": 12.5, "link_latency_us": 5})");
  CHECK(model.link_rate == 12.5e9);
  CHECK(std::abs(model.link_latency - 5e-6) < 1e-12);
  CHECK(model.copy_rate == CostModel().copy_rate);
  CHECK(text_of(parse_cost_model(text_of(model))) == text_of(model));
  for (const char* text : {"", "[]", "{", R"({"link_gbs": 0})", R"({"link_gbs": "x"})",
                           R"({"link_gb": 1})", R"({"copy_gbs": -1})"})
    CHECK_THROWS_AS(parse_cost_model(text), std::invalid_argument);
}

TEST_CASE("every schedule has the name of its algorithm") {
  for (const Operation operation : with_algorithms) {
    for (const int size : {1, 4}) {
      for (const auto algorithm : algorithms_of(operation)) {
        ScheduleArguments problem{.size = size, .count = 9, .chunk = 2};
        CHECK(make(operation, algorithm, problem).algorithm == algorithm);
        problem.count = 0;
        CHECK(make(operation, algorithm, problem).algorithm == algorithm);
      }
    }
  }
}

TEST_CASE("every algorithm has a unique id") {
  std::set<int> ids;
  std::set<std::string_view> known;
  for (const Operation operation : with_algorithms) {
    for (const auto algorithm : algorithms_of(operation)) {
      ids.insert(algorithm_id(algorithm));
      known.insert(algorithm);
      CHECK(algorithm_name(algorithm_id(algorithm)) == algorithm);
    }
  }
  CHECK(ids.size() == known.size());
  CHECK(ids.count(0) == 0);
  // Three ids have no schedule: the one for no algorithm, shared memory, and windows of devices.
  CHECK(static_cast<int>(ids.size()) == algorithm_id_count - 3);
}

TEST_CASE("algorithms in rank order reduce nothing on the way") {
  for (const Operation operation : {Operation::all_reduce, Operation::reduce,
                                    Operation::reduce_scatter, Operation::reduce_scatter_v}) {
    CHECK(algorithms_of(operation, true).size() < algorithms_of(operation).size());
    for (const auto algorithm : algorithms_of(operation, true)) {
      INFO(name(operation) << " " << algorithm);
      bool combines = false;
      for (const Schedule& schedule :
           schedules_of({.operation = operation,
           .algorithm = algorithm,
           .problem = {.size = 5, .root = 2, .count = 17, .chunk = 2, .in_place = false}})) {
        Cursor cursor(schedule);
        for (Step step; cursor.next(step);) {
          CHECK(step.kind != StepKind::reduce);
          CHECK(step.kind != StepKind::recv_reduce);
          combines |= step.kind == StepKind::combine;
        }
      }
      CHECK(combines);
    }
  }
}

TEST_CASE("an unknown name is refused, and the known ones are listed") {
  const ScheduleArguments problem;
  try {
    static_cast<void>(make(Operation::all_reduce, "rings", problem));
    FAIL("was accepted");
  } catch (const std::invalid_argument& error) {
    CHECK(std::string(error.what()) ==
          "all_reduce has no algorithm \"rings\"; it has recursive_doubling, ring, rabenseifner, "
          "hierarchical, leaders, gathered, slices");
  }
  CHECK_THROWS_AS(make(Operation::broadcast, "", problem), std::invalid_argument);
  CHECK_THROWS_AS(make(Operation::barrier, "ring", problem), std::invalid_argument);
  CHECK_THROWS_AS(make(Operation::fan_out, "chain", problem), std::invalid_argument);
}

TEST_CASE("send and recv have no algorithm") {
  for (const Operation operation :
       {Operation::none, Operation::send, Operation::recv, Operation::send_recv}) {
    CHECK(algorithms_of(operation).empty());
    CHECK_THROWS_AS(choose(operation, {}, {}), std::invalid_argument);
    CHECK_THROWS_AS(make(operation, "direct", {}), std::invalid_argument);
  }
}

}  // namespace tutti::algorithm::test
