// Placements of ranks on hosts: results stay correct, and rings enter each host once.
#include <map>
#include <set>
#include <utility>

#include "algorithm/rank_order.hpp"
#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

constexpr Operation operations[] = {
    Operation::barrier,    Operation::fan_out,    Operation::broadcast,
    Operation::all_reduce, Operation::reduce,     Operation::gather,
    Operation::scatter,    Operation::all_gather, Operation::reduce_scatter,
    Operation::all_to_all, Operation::scan,       Operation::exclusive_scan};

ScheduleArguments problem_on(const std::vector<int>& host, int root) {
  return {.size = static_cast<int>(host.size()),
          .root = root,
          .count = 57,
          .chunk = 4,
          .in_place = true,
          .host = host};
}

/// `sharing`: hosts whose ranks share memory.
void try_one(Operation operation, std::string_view algorithm, const ScheduleArguments& problem,
             const std::set<int>& sharing, std::uint64_t run) {
  Case c{.operation = operation,
         .algorithm = algorithm,
         .problem = problem,
         .options = options_for(run),
         .in_place_of = {},
         .sent = {},
         .sharing = sharing};
  if (operation == Operation::barrier) c.problem.count = 0;
  set_in_place(c, run);
  const std::string failure = failure_of(c);
  if (!failure.empty()) FAIL(failure);
}

constexpr int all_runs = 20;

/// With `runs` of the options for windows, orders and in-place calls, from `first` on.
void try_all(Operation operation, const ScheduleArguments& problem,
             const std::set<int>& sharing = {}, int runs = all_runs, std::uint64_t first = 0) {
  for (const std::string_view algorithm : algorithms_of(operation)) {
    for (int run = 0; run < runs; ++run) {
      try_one(operation, algorithm, problem, sharing, first + static_cast<std::uint64_t>(run));
    }
  }
}

/// Every operation on every placement, with `runs` of the options each.
void try_placements(int runs) {
  std::uint64_t first = 0;
  for (const auto& host : host_layouts()) {
    for (int root = 0; root < static_cast<int>(host.size()); ++root) {
      for (const Operation operation : operations) {
        // With too little shared memory for all elements at once, too, and on some hosts only.
        for (const std::int64_t max_published : {13, 1000}) {
          auto problem = problem_on(host, root);
          problem.max_published = max_published;
          for (const auto& sharing : {std::set<int>(), {0, 1, 2}, {1}}) {
            try_all(operation, problem, sharing, runs, first);
            first += static_cast<std::uint64_t>(runs);
          }
        }
      }
    }
  }
}

// Number of elements sent from one host to another.
std::int64_t elements_between_hosts(const std::vector<Schedule>& schedules,
                                    const std::vector<int>& host) {
  std::int64_t elements = 0;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    Cursor cursor(schedules[rank]);
    for (Step step; cursor.next(step);)
      if (step.kind == StepKind::send && host[rank] != host[static_cast<std::size_t>(step.peer)])
        elements += step.region.length();
  }
  return elements;
}

}  // namespace

TEST_CASE("a schedule has the number of chunks that its steps open") {
  auto problem = problem_on({0, 0, 1, 1}, 0);
  problem.max_published = 13;
  for (const bool shares : {false, true}) {
    problem.shares_memory = shares;
    std::int64_t all = 0;
    for (const Operation operation : operations) {
      for (const std::string_view algorithm : algorithms_of(operation)) {
        CAPTURE(shares, operation, algorithm);
        const auto schedule = make(operation, algorithm, problem);
        std::int64_t opened = 0;
        Cursor cursor(schedule);
        for (Step step; cursor.next(step);) opened += step.kind == StepKind::publish ? 1 : 0;
        CHECK(schedule.published_chunks == opened);
        all += opened;
      }
    }
    CHECK((all > 0) == shares);
  }
}

TEST_CASE("every algorithm is correct on every placement on hosts") {
  try_placements(3);
}

TEST_CASE("every algorithm is correct on every placement on hosts with all options", "[sweep]") {
  try_placements(all_runs / 2);
}

TEST_CASE("blocks of different lengths are correct on every placement on hosts") {
  for (const auto& host : host_layouts()) {
    ScheduleArguments problem = problem_on(host, static_cast<int>(host.size()) / 2);
    for (std::int64_t rank = 0; rank < problem.size; ++rank)
      problem.counts.push_back(rank * 7 % 5 * 3);
    // In one chunk all blocks, several, or parts of one.
    constexpr std::pair<std::int64_t, std::int64_t> limits[] = {{1000, 4}, {20, 100}, {5, 4}};
    for (const auto& [max_published, chunk] : limits) {
      problem.max_published = max_published;
      problem.chunk = chunk;
      for (const auto& sharing : {std::set<int>(), {0, 1, 2}, {1}}) {
        for (const Operation operation : {Operation::all_gather_v, Operation::reduce_scatter_v,
                                          Operation::gather_v, Operation::scatter_v})
          try_all(operation, problem, sharing);
      }
    }
  }
}

TEST_CASE("an all-to-all of different lengths is correct on every placement on hosts") {
  for (const auto& host : host_layouts()) {
    for (std::uint64_t run = 0; run < 20; ++run) {
      Case c{.operation = Operation::all_to_all_v,
             .algorithm = "pairwise",
             .problem = problem_on(host, 0),
             .options = options_for(run),
             .in_place_of = {},
             .sent = {},
             .sharing = {0, 1, 2}};
      c.problem.in_place = false;
      for (std::size_t from = 0; from < host.size(); ++from) {
        c.sent.emplace_back();
        for (std::size_t to = 0; to < host.size(); ++to)
          c.sent.back().push_back(static_cast<std::int64_t>((from * 3 + to * 5) % 7));
      }
      const std::string failure = failure_of(c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

TEST_CASE("rings enter each host once") {
  for (const auto& host : host_layouts()) {
    const auto hosts = static_cast<std::int64_t>(std::set<int>(host.begin(), host.end()).size());
    const ScheduleArguments problem = problem_on(host, 0);
    for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter}) {
      const auto schedules =
          schedules_of({.operation = operation, .algorithm = "ring", .problem = problem});
      CHECK(elements_between_hosts(schedules, host) == hosts * (problem.size - 1) * problem.count);
    }
  }
}

TEST_CASE("a chain crosses to or from each host but the root's once") {
  for (const auto& host : host_layouts()) {
    const auto hosts = static_cast<std::int64_t>(std::set<int>(host.begin(), host.end()).size());
    for (int root = 0; root < static_cast<int>(host.size()); ++root) {
      const ScheduleArguments problem = problem_on(host, root);
      for (const Operation operation : {Operation::broadcast, Operation::reduce}) {
        const auto schedules =
            schedules_of({.operation = operation, .algorithm = "chain", .problem = problem});
        CHECK(elements_between_hosts(schedules, host) == (hosts - 1) * problem.count);
      }
    }
  }
}

TEST_CASE("a hierarchical all-reduce crosses links as often as a ring of hosts would") {
  for (const auto& host : host_layouts()) {
    const auto hosts = static_cast<std::int64_t>(std::set<int>(host.begin(), host.end()).size());
    for (const std::int64_t count : {1, 57, 1000}) {
      ScheduleArguments problem = problem_on(host, 0);
      problem.count = count;
      const auto schedules = schedules_of(
          {.operation = Operation::all_reduce, .algorithm = "hierarchical", .problem = problem});
      CHECK(elements_between_hosts(schedules, host) == 2 * (hosts - 1) * count);
    }
  }
}

TEST_CASE("hierarchical schedules are correct for every size and placement on hosts", "[sweep]") {
  constexpr std::pair<Operation, std::string_view> hierarchical[] = {
      {Operation::all_reduce, "hierarchical"}, {Operation::all_reduce, "leaders"},
      {Operation::broadcast, "hierarchical"},  {Operation::broadcast, "leaders"},
      {Operation::all_gather, "hierarchical"}, {Operation::reduce_scatter, "hierarchical"},
      {Operation::all_to_all, "hierarchical"}, {Operation::reduce, "hierarchical"},
      {Operation::gather, "direct"},           {Operation::scatter, "direct"},
      {Operation::fan_out, "direct"},          {Operation::all_to_all, "pairwise"},
      {Operation::barrier, "leaders"}};
  std::uint64_t run = 0;
  for (int size = 1; size <= 64; size += size < 24 ? 1 : 5) {
    for (const int hosts : {1, 2, 3, 5, 16}) {
      if (hosts > size) continue;
      for (const int kind : {0, 1, 2}) {
        ScheduleArguments problem{.size = size, .in_place = true};
        for (int rank = 0; rank < size; ++rank) {
          const int uneven = rank < hosts ? rank : rank * 7 % 11 % hosts;
          problem.host.push_back(kind == 0   ? rank * hosts / size
                                 : kind == 1 ? rank % hosts
                                             : uneven);
        }
        for (const auto& [count, chunk] : sizes_for(size, run)) {
          problem.count = count;
          problem.chunk = chunk;
          constexpr std::int64_t limits[] = {1, 100, 5, 1 << 20};
          std::set<int> sharing;
          for (int on = 0; on < hosts; ++on)
            if (run % 3 == 0 || (run % 3 == 1 && on % 2 == 1)) sharing.insert(on);
          problem.max_published = limits[run / 3 % 4];
          // A fifth of the algorithms in each case; together all meet all kinds of cases.
          for (std::size_t index = run % 5; index < std::size(hierarchical); index += 5) {
            const auto& [operation, algorithm] = hierarchical[index];
            problem.root = static_cast<int>(run) % size;
            try_one(operation, algorithm, problem, sharing, run);
          }
          ++run;
        }
      }
    }
  }
}

TEST_CASE("blocks that fit share a chunk of shared memory") {
  ScheduleArguments problem{.size = 8, .count = 10, .chunk = 100, .host = {0, 0, 0, 0, 1, 1, 1, 1}};
  problem.shares_memory = true;
  const auto chunks = [&](std::int64_t max_published) {
    problem.max_published = max_published;
    return published_chunks(make(Operation::reduce_scatter, "hierarchical", problem));
  };
  CHECK(chunks(80) == 1);
  CHECK(chunks(79) == 2);
  CHECK(chunks(20) == 4);
  CHECK(chunks(19) == 8);
  CHECK(chunks(5) == 16);
}

TEST_CASE("the order starts with the first rank and keeps hosts together") {
  for (const auto& host : host_layouts()) {
    const auto size = static_cast<int>(host.size());
    for (int first = 0; first < size; ++first) {
      ScheduleArguments problem = problem_on(host, first);
      const RankOrder order(problem, first);
      CHECK(order.rank_at(0) == first);
      std::set<int> ranks;
      std::set<int> hosts;
      int changes = 1;
      for (int position = 0; position < size; ++position) {
        const int rank = order.rank_at(position);
        ranks.insert(rank);
        hosts.insert(host[static_cast<std::size_t>(rank)]);
        if (position > 0) {
          const int before = order.rank_at(position - 1);
          changes += host[static_cast<std::size_t>(rank)] != host[static_cast<std::size_t>(before)];
        }
        problem.rank = rank;
        CHECK(RankOrder(problem, first).position() == position);
        CHECK(order.rank_at(position - size) == rank);
        CHECK(order.rank_at(position + size) == rank);
      }
      CHECK(ranks.size() == host.size());
      CHECK(changes == static_cast<int>(hosts.size()));
    }
  }
}

TEST_CASE("a placement needs one host for each rank") {
  ScheduleArguments problem = problem_on({0, 0, 1}, 0);
  problem.size = 4;
  CHECK_THROWS_AS(RankOrder(problem, 0), std::invalid_argument);
}

}  // namespace tutti::algorithm::test
