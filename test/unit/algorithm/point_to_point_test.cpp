// send, recv and send_recv.
#include "algorithm/algorithms.hpp"
#include "problems.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

Problem message_of(int rank, int size, std::int64_t count) {
  return {.rank = rank,
          .size = size,
          .root = 0,
          .count = count,
          .chunk = 4,
          .in_place = true,
          .host = {}};
}

void require_right(const std::vector<Schedule>& schedules, std::int64_t count,
                   std::vector<int> source) {
  const Expectation expectation{.operation = Operation::send_recv,
                                .count = count,
                                .root = 0,
                                .in_place = false,
                                .source = std::move(source)};
  for (std::uint64_t run = 0; run < 20; ++run) {
    const auto fault = check(schedules, expectation, options_for(run));
    if (fault) FAIL(*fault);
  }
}

}  // namespace

TEST_CASE("a message goes from sender to receiver") {
  for (const std::int64_t count : {0, 1, 33}) {
    const std::vector<Schedule> schedules{send(message_of(0, 3, count), 2), Schedule{},
                                          recv(message_of(2, 3, count), 0)};
    require_right(schedules, count, {-1, -1, 0});
  }
}

TEST_CASE("a cycle of send_recv does not wait for itself") {
  for (int size = 1; size <= 9; ++size) {
    for (int distance = 0; distance < size; ++distance) {
      for (const std::int64_t count : {0, 1, 33}) {
        std::vector<Schedule> schedules;
        std::vector<int> source;
        for (int rank = 0; rank < size; ++rank) {
          const int from = (rank + size - distance) % size;
          schedules.push_back(
              send_recv(message_of(rank, size, 0), (rank + distance) % size, count, from, count));
          source.push_back(from);
        }
        require_right(schedules, count, source);
      }
    }
  }
}

TEST_CASE("send_recv takes two counts") {
  const Schedule schedule = send_recv(message_of(1, 4, 0), 2, 5, 3, 7);
  Cursor cursor(schedule);
  Step step;
  REQUIRE(cursor.next(step));
  CHECK(describe(step) == "send input[0, 5) to rank 2");
  REQUIRE(cursor.next(step));
  CHECK(describe(step) == "recv output[0, 7) from rank 3");
  CHECK_FALSE(cursor.next(step));
}

TEST_CASE("send_recv with oneself must match") {
  CHECK_THROWS_AS(send_recv(message_of(1, 4, 0), 1, 5, 3, 5), std::invalid_argument);
  CHECK_THROWS_AS(send_recv(message_of(1, 4, 0), 3, 5, 1, 5), std::invalid_argument);
  CHECK_THROWS_AS(send_recv(message_of(1, 4, 0), 1, 5, 1, 6), std::invalid_argument);
}

}  // namespace tutti::algorithm::test
