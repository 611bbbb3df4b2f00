#pragma once

#include <string>
#include <vector>

#include "support/fork_ranks.hpp"

namespace tutti::soak {

struct Settings {
  int runs = 500;
  int least_ranks = 3;
  int most_ranks = 8;
  std::uint64_t seed = 1;
  bool verbose = false;            ///< tell of each run
  double most_milliseconds = 200;  ///< until a survivor knows; 0: no bound
};

/// What a soak adds up over its runs.
class Tally {
 public:
  Tally(std::string name, Settings settings);

  /// A survivor has heard of the loss so long after it.
  void told(std::uint64_t seed, test::Clock::duration after);
  /// A survivor was done without having to hear of it.
  void untold() { ++untold_; }
  void destroyed(test::Clock::duration time);
  void recovered(test::Clock::duration time) { recoveries_.push_back(test::seconds(time) * 1e3); }
  void hung() { ++hangs_; }
  /// Something that must not be; printed at once with what repeats it.
  void wrong(std::uint64_t seed, int ranks, const std::string& what);

  /// Prints the sum; the exit status.
  [[nodiscard]] int finish();

 private:
  std::string name_;
  Settings settings_;
  std::vector<double> times_;  ///< milliseconds
  std::vector<double> recoveries_;
  double worst_ = 0;
  std::uint64_t seed_of_worst_ = 0;
  double worst_destruction_ = 0;
  int untold_ = 0;
  int hangs_ = 0;
  int wrong_ = 0;
};

[[nodiscard]] int kills(const Settings& settings, int victims);
[[nodiscard]] int shrink(const Settings& settings);
[[nodiscard]] int cost();
[[nodiscard]] int encryption();
[[nodiscard]] int intruders(std::size_t connections);
/// What starting jobs of so many ranks costs. `over_tcp`: without shared memory.
[[nodiscard]] int start(const std::vector<int>& sizes, int runs, bool over_tcp);

}  // namespace tutti::soak
