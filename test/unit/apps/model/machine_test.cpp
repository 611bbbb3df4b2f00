// Placement of ranks, and traffic counts.
#include "model/machine.hpp"
#include "algorithm/algorithms.hpp"
#include "model/traffic.hpp"
#include "support/catch.hpp"

namespace tutti::model::test {

TEST_CASE("ranks are distributed by slot and by node, also over uneven hosts") {
  CHECK(distribute_evenly(7, 3) == std::vector<int>{3, 2, 2});
  CHECK(place({3, 2, 2}, MapBy::slot) == std::vector<int>{0, 0, 0, 1, 1, 2, 2});
  CHECK(place({3, 1, 2}, MapBy::node) == std::vector<int>{0, 1, 2, 0, 2, 0});
  CHECK(local_ranks({0, 1, 2, 0, 2, 0}) == std::vector<int>{0, 0, 0, 1, 1, 2});
}

TEST_CASE("traffic of a chain: bytes over each link, messages, sockets") {
  const Machine machine{.host = {0, 0, 1, 1, 2}};
  TrafficCounter counter(machine);
  for (int rank = 0; rank < 5; ++rank) {
    algorithm::ScheduleArguments problem{.rank = rank, .size = 5, .count = 100, .chunk = 30};
    problem.host = machine.host;
    counter.add(rank, algorithm::broadcast_chain(problem));
  }
  const Traffic traffic = counter.result();
  CHECK(traffic.out == std::vector<std::int64_t>{100, 100, 0});
  CHECK(traffic.in == std::vector<std::int64_t>{0, 100, 100});
  CHECK(traffic.between_hosts == 200);
  CHECK(traffic.within_hosts == 200);
  CHECK(traffic.messages == 16);
  CHECK(traffic.max_messages == 4);
  CHECK(traffic.sockets == 2);
  CHECK(traffic.remote_sockets == 1);
  CHECK_FALSE(traffic.hosts_are_equivalent);
}

TEST_CASE("hosts of a ring are equivalent, by slot and by node, unless one has fewer ranks") {
  for (const auto& host : {place({2, 2, 2}, MapBy::slot), place({2, 2, 2}, MapBy::node),
                           place({2, 2, 1}, MapBy::slot)}) {
    const Machine machine{.host = host};
    TrafficCounter counter(machine);
    for (int rank = 0; rank < static_cast<int>(host.size()); ++rank) {
      algorithm::ScheduleArguments problem{
          .rank = rank, .size = static_cast<int>(host.size()), .count = 60, .chunk = 5};
      problem.host = host;
      counter.add(rank, algorithm::all_reduce_ring(problem));
    }
    CHECK(counter.result().hosts_are_equivalent == (host.size() == 6));
  }
}

}  // namespace tutti::model::test
