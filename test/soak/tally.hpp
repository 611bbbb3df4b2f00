#pragma once

#include <map>
#include <string>
#include <vector>

#include "setting.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::soak {

struct Settings {
  int runs = 500;
  int min_ranks = 3;
  int max_ranks = 8;
  std::uint64_t seed = 1;
  bool verbose = false;           ///< print each run
  double max_milliseconds = 200;  ///< until a survivor knows, in runs without load; 0: no bound
  Wanted wanted;
};

/// A rank that has not returned by then hangs. Three times the deadline of a call, which nothing
/// here may need.
inline constexpr auto deadline_of_calls = std::chrono::seconds(40);
inline constexpr auto deadline_of_runs = 3 * deadline_of_calls;

/// What a soak adds up over its runs, for each kind of setting.
class Tally {
 public:
  Tally(std::string name, const Settings& settings);

  /// Before what follows: the next run.
  void begin(const Setting& setting);
  /// A survivor has reported the loss, or has a communicator again, so long after it.
  void reported(test::Clock::duration after);
  /// A survivor had finished before the loss.
  void untold() { ++untold_; }
  void destroyed(test::Clock::duration time);
  void hung() { ++row_->hangs; }
  /// Something that must not be; printed at once with what repeats it.
  void wrong(const std::string& what);

  /// Prints the table; the exit status.
  [[nodiscard]] int finish();

 private:
  struct Row {
    int runs = 0;
    int hangs = 0;
    int wrong = 0;
    std::vector<double> times;  ///< milliseconds until the last survivor of a run knew
  };
  [[nodiscard]] std::string repeats() const;
  void end_run();

  std::string name_;
  Settings settings_;
  Setting setting_;
  std::map<std::string, Row> rows_;
  Row* row_ = nullptr;  ///< of the run that goes on
  double latest_ = -1;  ///< of its survivors; below 0: none reported
  double worst_ = 0;
  std::string repeats_worst_;
  double worst_destruction_ = 0;
  int late_ = 0;
  int told_ = 0;
  int untold_ = 0;
};

[[nodiscard]] int kills(Settings settings, int victims);
[[nodiscard]] int shrink(Settings settings);
[[nodiscard]] int cost();
[[nodiscard]] int encryption();
[[nodiscard]] int unauthenticated(std::size_t connections);
/// What starting jobs of so many ranks costs. `over_tcp`: without shared memory.
[[nodiscard]] int start(const std::vector<int>& sizes, int runs, bool over_tcp);

}  // namespace tutti::soak
