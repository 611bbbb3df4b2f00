#include "host_segment.hpp"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <random>
#include <thread>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::preload::test {
namespace {

using namespace std::chrono_literals;

Identity fresh_identity() {
  std::random_device random;
  const std::array<unsigned, 4> numbers{random(), random(), random(), random()};
  return Identity::of(std::as_bytes(std::span(numbers)));
}

std::vector<std::byte> text(int number) {
  return std::vector<std::byte>(static_cast<std::size_t>(number), std::byte(number));
}

/// The segments of ranks that are threads of this process.
struct Ranks {
  explicit Ranks(int size) {
    const auto identity = fresh_identity();
    for (int rank = 0; rank < size; ++rank) {
      all.push_back(std::make_unique<HostSegment>(identity));
      all.back()->set_ranks(rank, size);
    }
    all.front()->remove_name();
  }
  template <class Body>
  void run(Body body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      threads.emplace_back([&, rank] { body(static_cast<int>(rank), *all[rank]); });
    }
    for (auto& thread : threads) thread.join();
  }
  std::vector<std::unique_ptr<HostSegment>> all;
};

TEST_CASE("identities differ by id, split and color, and are the same everywhere") {
  const auto one = fresh_identity();
  CHECK(one.text() != fresh_identity().text());
  CHECK(one.text().size() == 32);
  CHECK(one.child(1, 0).text() == one.child(1, 0).text());
  CHECK(one.child(1, 0).text() != one.child(2, 0).text());
  CHECK(one.child(1, 0).text() != one.child(1, 1).text());
  CHECK(one.child(1, -1).text() != one.child(1, 0).text());
}

TEST_CASE("all registrations of a communicator are counted, others are not") {
  const auto identity = fresh_identity();
  HostSegment first(identity);
  CHECK(first.registered() == 1);
  HostSegment second(identity);
  HostSegment other(fresh_identity());
  CHECK(first.registered() == 2);
  CHECK(second.registered() == 2);
  CHECK(other.registered() == 1);
  other.remove_name();
  first.remove_name();
  // Who comes now finds another segment, and those that have registered keep theirs.
  HostSegment late(identity);
  late.remove_name();
  CHECK(late.registered() == 1);
  CHECK(second.registered() == 2);
}

TEST_CASE("ranks gather blocks of different lengths, many times") {
  Ranks ranks(4);
  std::array<int, 4> right{};
  ranks.run([&](int rank, HostSegment& segment) {
    for (int round = 0; round < 200; ++round) {
      const auto all = segment.all_gather(text(rank + round % 50), Deadline::after(20s));
      bool same = all.size() == 4;
      for (int from = 0; same && from < 4; ++from) {
        same = all[static_cast<std::size_t>(from)] == text(from + round % 50);
      }
      if (same) ++right[static_cast<std::size_t>(rank)];
    }
    if (segment.agree(Deadline::after(20s))) ++right[static_cast<std::size_t>(rank)];
  });
  CHECK(right == std::array{201, 201, 201, 201});
}

TEST_CASE("a rank that refuses ends the waits of the others") {
  Ranks ranks(3);
  std::array<std::string, 3> said;
  ranks.run([&](int rank, HostSegment& segment) {
    if (rank == 2) {
      std::this_thread::sleep_for(20ms);
      return segment.refuse();
    }
    try {
      static_cast<void>(segment.all_gather({}, Deadline::after(20s)));
    } catch (const Error& error) {
      said[static_cast<std::size_t>(rank)] = error.sentence();
    }
    if (segment.agree(Deadline::after(20s))) said[static_cast<std::size_t>(rank)] = "agreed";
  });
  CHECK(said[0] == "a rank did not take part in the set-up");
  CHECK(said[1] == said[0]);
}

TEST_CASE("at the deadline all ranks decide alike") {
  for (int round = 0; round < 20; ++round) {
    Ranks ranks(3);
    std::array<bool, 3> agreed{};
    ranks.run([&](int rank, HostSegment& segment) {
      // About when the others give up.
      if (rank == 2) std::this_thread::sleep_for(5ms);
      agreed[static_cast<std::size_t>(rank)] = segment.agree(Deadline::after(5ms));
    });
    CHECK(agreed[0] == agreed[1]);
    CHECK(agreed[1] == agreed[2]);
  }
}

TEST_CASE("a rank that does not come is named") {
  Ranks ranks(2);
  CHECK_THROWS_WITH(ranks.all[0]->all_gather({}, Deadline::after(10ms)),
                    "rank 1 did not come to the set-up");
}

TEST_CASE("a block that does not fit is refused") {
  Ranks ranks(2);
  const std::vector<std::byte> large(HostSegment::max_block_bytes + 1);
  CHECK_THROWS_AS(ranks.all[0]->all_gather(large, Deadline::after(10ms)), Error);
}

TEST_CASE("ranks see each other's latest calls") {
  const Ranks ranks(2);
  CHECK(ranks.all[1]->latest_of(0).number == 0);
  ranks.all[0]->publish({.kind = CallKind::broadcast, .count = 5, .type = 7});
  ranks.all[0]->publish({.kind = CallKind::recv, .count = std::size_t{1} << 40, .type = 11});
  const auto latest = ranks.all[1]->latest_of(0);
  CHECK(latest.number == 2);
  CHECK(describe(latest.call) == "ncclRecv of 1099511627776 f8e5m2");
}

TEST_CASE("a rank that leaves in order is known to the others") {
  Ranks ranks(2);
  CHECK_FALSE(ranks.all[0]->has_left(1));
  ranks.all[1]->leave();
  CHECK(ranks.all[0]->has_left(1));
  CHECK_FALSE(ranks.all[0]->has_left(0));
}

}  // namespace
}  // namespace tutti::preload::test
