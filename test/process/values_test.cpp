// Collectives on single values and on structs, which are sent as bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

struct Particle {
  double position = 0;
  std::int32_t charge = 0;
  char kind = 0;

  friend bool operator==(const Particle&, const Particle&) = default;
};

Particle particle(int rank, std::size_t i) {
  return {0.5 * rank + static_cast<double>(i), static_cast<std::int32_t>(100 * rank),
          static_cast<char>('a' + rank)};
}

std::vector<Particle> particles(int rank, std::size_t count) {
  std::vector<Particle> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(particle(rank, i));
  return all;
}

}  // namespace

TEST_CASE("values are broadcast and reduced") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    for (int root = 0; root < 3; ++root) {
      double number = rank.rank() == root ? 1.5 : 0;
      communicator.broadcast(number, root);
      expect(number == 1.5, "a number is wrong");
      auto one = rank.rank() == root ? particle(root, 3) : Particle{};
      communicator.broadcast(one, root);
      expect(one == particle(root, 3), "a struct is wrong");
      bool is_set = rank.rank() == root;
      communicator.broadcast(is_set, root);
      expect(is_set, "a bool is wrong");
    }
    const int mine = rank.rank() + 1;
    expect(communicator.all_reduce(mine, sum) == 6 && mine == rank.rank() + 1, "the sum is wrong");
    expect(communicator.all_reduce(mine, product) == 6, "the product is wrong");
    expect(communicator.all_reduce(0.5 * mine, max) == 1.5, "the maximum is wrong");
    const auto average_of_halves = communicator.all_reduce(half(static_cast<float>(mine)), average);
    expect(static_cast<float>(average_of_halves) == 2, "the average is wrong");
    expect(communicator.all_reduce(std::uint8_t{1}, sum, {.algorithm = "ring"}) == 3,
           "the options were not used");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("structs are sent, broadcast, gathered and scattered") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    const int me = rank.rank();
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{5000}}) {
      const auto mine = particles(me, count);
      std::vector<Particle> other(count);
      communicator.send_recv(mine, (me + 1) % 3, other, (me + 2) % 3);
      expect(other == particles((me + 2) % 3, count), "send_recv is wrong");
      if (me == 0) communicator.send(mine, 1);
      if (me == 1) communicator.recv(other, 0);
      expect(me != 1 || other == particles(0, count), "send and recv are wrong");

      auto from_root = mine;
      communicator.broadcast(from_root, 2);
      expect(from_root == particles(2, count), "broadcast is wrong");

      std::vector<Particle> due;
      for (int other_rank = 0; other_rank < 3; ++other_rank) {
        const auto theirs = particles(other_rank, count);
        due.insert(due.end(), theirs.begin(), theirs.end());
      }
      std::vector<Particle> all(3 * count);
      communicator.all_gather(mine, all);
      expect(all == due, "all_gather is wrong");
      std::fill(all.begin(), all.end(), Particle{});
      communicator.start_gather(mine, all, 1).wait();
      expect(me != 1 || all == due, "gather is wrong");
      communicator.scatter(due, other, 0);
      expect(other == mine, "scatter is wrong");
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("structs in blocks of different lengths: counts are structs") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    const int me = rank.rank();
    const std::vector<std::size_t> counts{2, 0, 3};
    std::vector<Particle> due;
    for (int other = 0; other < 3; ++other) {
      const auto theirs = particles(other, counts[static_cast<std::size_t>(other)]);
      due.insert(due.end(), theirs.begin(), theirs.end());
    }
    const auto mine = particles(me, counts[static_cast<std::size_t>(me)]);
    std::vector<Particle> all(due.size());
    communicator.all_gather_v(mine, all, counts);
    expect(all == due, "all_gather_v is wrong");
    std::fill(all.begin(), all.end(), Particle{});
    communicator.start_gather_v(mine, all, counts, 2).wait();
    expect(me != 2 || all == due, "gather_v is wrong");
    std::vector<Particle> own(mine.size());
    communicator.scatter_v(due, own, counts, 0);
    expect(own == mine, "scatter_v is wrong");

    // Each rank has displacements of its own; what lies between the blocks stays.
    const auto gap = static_cast<std::size_t>(me);
    const std::vector<std::size_t> begins{3 + 2 * gap, 0, gap};
    std::vector<Particle> displaced(5 + 2 * gap);
    auto expected_displaced = displaced;
    for (int other = 0; other < 3; ++other) {
      const auto block = static_cast<std::size_t>(other);
      const auto theirs = particles(other, counts[block]);
      std::copy(theirs.begin(), theirs.end(),
                expected_displaced.begin() + static_cast<std::ptrdiff_t>(begins[block]));
    }
    communicator.start_all_gather_v(mine, displaced, {counts, begins}).wait();
    expect(displaced == expected_displaced, "all_gather_v of displaced blocks is wrong");
    std::fill(own.begin(), own.end(), Particle{});
    communicator.scatter_v(displaced, own, {counts, begins}, 2);
    expect(own == mine, "scatter_v of displaced blocks is wrong");

    // Rank r sends r structs to each rank.
    const std::vector<std::size_t> sent(3, static_cast<std::size_t>(me));
    const std::vector<std::size_t> received{0, 1, 2};
    const auto to_each = particles(me, 3 * static_cast<std::size_t>(me));
    std::vector<Particle> from_each(3);
    communicator.start_all_to_all_v(to_each, sent, from_each, received).wait();
    const auto block = static_cast<std::size_t>(me);
    const std::vector<Particle> expected{particle(1, block), particle(2, 2 * block),
                                         particle(2, 2 * block + 1)};
    expect(from_each == expected, "all_to_all_v is wrong");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("ranks that disagree about a struct get an error") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    if (rank.rank() == 0) {
      Particle one{};
      communicator.broadcast(one, 0);
    } else {
      double one = 0;
      communicator.broadcast(one, 0);
    }
    communicator.barrier();
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
  }
}

}  // namespace tutti::test
