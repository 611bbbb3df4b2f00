#include "control/group.hpp"

#include "support/catch.hpp"

namespace tutti::control::test {
namespace {

Group group_of(std::vector<int> world) {
  return {.id = 1, .world = std::move(world)};
}

}  // namespace

TEST_CASE("a group's ranks are listed in its order, with ranges and a limited length") {
  CHECK(group_of({3}).world_text() == "rank 3");
  CHECK(group_of({2, 3}).world_text() == "ranks 2 and 3");
  CHECK(group_of({3, 2}).world_text() == "ranks 3 and 2");
  CHECK(group_of({0, 2, 4, 5, 6, 7}).world_text() == "ranks 0, 2 and 4 to 7");
  CHECK(group_of({5, 6, 7, 1}).world_text() == "ranks 5 to 7 and 1");
  std::vector<int> even;
  for (int rank = 0; rank < 1000; rank += 2) even.push_back(rank);
  CHECK(group_of(even).world_text() == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and others");
}

TEST_CASE("a call of a group is described with ranks of the job") {
  const CallSignature broadcast{.operation = Operation::broadcast, .root = 1, .count = 4};
  CHECK(describe(broadcast, group_of({0, 1})) == "broadcast of 4 u8 from rank 1");
  CHECK(describe(broadcast, group_of({2, 3})) == "broadcast of 4 u8 from rank 3 of the job");
  const CallSignature send{.operation = Operation::send, .root = 0, .count = 4};
  CHECK(describe(send, group_of({2, 3})) == "send of 4 u8 to rank 2 of the job");
  const CallSignature reduce{.operation = Operation::reduce, .root = 0, .count = 4};
  CHECK(describe(reduce, group_of({2, 3})) == "reduce of 4 u8, sum, to rank 2 of the job");
  CHECK(describe({.operation = Operation::barrier, .root = 0}, group_of({2, 3})) == "barrier");
  CHECK(describe({.operation = Operation::all_reduce, .count = 4}, group_of({2, 3})) ==
        "all_reduce of 4 u8, sum");
}

TEST_CASE("a root out of range, as in a peer's message, is described unchanged") {
  CHECK(describe({.operation = Operation::broadcast, .root = 7}, group_of({2, 3})) ==
        "broadcast of 0 u8 from rank 7");
  CHECK(describe({.operation = Operation::broadcast, .root = -7}, group_of({2, 3})) ==
        "broadcast of 0 u8");
}

}  // namespace tutti::control::test
