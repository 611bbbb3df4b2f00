// The graph of control links.
#include "control/topology.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

/// The graph of all links as bit masks, for at most 64 ranks.
class Graph {
 public:
  explicit Graph(int size) {
    for (int rank = 0; rank < size; ++rank) {
      std::uint64_t bits = 0;
      for (const int peer : neighbours(rank, size)) bits |= bit(peer);
      links_.push_back(bits);
      everybody_ |= bit(rank);
    }
  }
  [[nodiscard]] bool stays_connected(const std::set<int>& dead) const {
    auto living = everybody_;
    for (const int rank : dead) living &= ~bit(rank);
    auto reached = living & (~living + 1);  // the lowest living rank
    for (auto before = std::uint64_t{0}; reached != before;) {
      before = reached;
      for (auto rest = reached; rest != 0; rest &= rest - 1) {
        reached |= links_[static_cast<std::size_t>(std::countr_zero(rest))] & living;
      }
    }
    return reached == living;
  }

 private:
  static std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }
  std::vector<std::uint64_t> links_;
  std::uint64_t everybody_ = 0;
};

}  // namespace

TEST_CASE("a job of one rank has no links") {
  CHECK(neighbours(0, 1).empty());
}

TEST_CASE("links are mutual, ascending, and never with the rank itself") {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100}) {
    for (int rank = 0; rank < size; ++rank) {
      const auto peers = neighbours(rank, size);
      INFO("rank " << rank << " of " << size);
      REQUIRE(std::is_sorted(peers.begin(), peers.end()));
      REQUIRE(std::adjacent_find(peers.begin(), peers.end()) == peers.end());
      for (const int peer : peers) {
        REQUIRE(peer >= 0);
        REQUIRE(peer < size);
        REQUIRE(peer != rank);
        const auto back = neighbours(peer, size);
        REQUIRE(std::count(back.begin(), back.end(), rank) == 1);
      }
    }
  }
}

TEST_CASE("the number of links per rank grows logarithmically") {
  for (const int size : {2, 3, 16, 100, 1000, 4096, 100'000}) {
    const auto doublings =
        static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size - 1)));
    CHECK(neighbours(size / 3, size).size() <= 2 * doublings);
  }
}

TEST_CASE("the graph stays connected after any two deaths") {
  for (int size = 2; size <= 40; ++size) {
    const Graph graph(size);
    for (int first = 0; first < size; ++first) {
      for (int second = first; second < size; ++second) {
        const std::set<int> dead{first, second};
        if (dead.size() == static_cast<std::size_t>(size)) continue;
        if (graph.stays_connected(dead)) continue;
        FAIL("size " << size << ", dead " << first << " and " << second);
      }
    }
  }
}

TEST_CASE("the graph of a small job stays connected after any three deaths") {
  for (int size = 4; size <= 16; ++size) {
    const Graph graph(size);
    for (int first = 0; first < size; ++first) {
      for (int second = first + 1; second < size; ++second) {
        for (int third = second + 1; third < size; ++third) {
          if (graph.stays_connected({first, second, third})) continue;
          FAIL("size " << size << ", dead " << first << ", " << second << ", " << third);
        }
      }
    }
  }
}

}  // namespace tutti::control::test
