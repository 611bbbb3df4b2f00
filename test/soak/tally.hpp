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
  bool verbose = false;  ///< print each run
  /// Until a survivor reports a loss, in runs without load; 0: no limit.
  double max_milliseconds = 200;
  Wanted wanted;
};

/// A rank that has not returned by then hangs: three times the deadline of a call, which no call
/// here needs.
inline constexpr auto deadline_of_calls = std::chrono::seconds(40);
inline constexpr auto deadline_of_runs = 3 * deadline_of_calls;

/// Results of a soak, per kind of setting.
class Tally {
 public:
  Tally(std::string name, const Settings& settings);

  /// Starts the next run.
  void begin(const Setting& setting);
  /// A survivor has reported the loss, or has a new communicator, this long after it.
  void reported(test::Clock::duration after);
  /// A survivor finished before the loss.
  void unreported() { ++unreported_; }
  void destroyed(test::Clock::duration time);
  void hung() { ++row_->hangs; }
  /// Records an error, and prints it with the options that repeat the run.
  void wrong(const std::string& what);

  /// Prints the table and returns the exit status.
  [[nodiscard]] int finish();

 private:
  struct Row {
    int runs = 0;
    int hangs = 0;
    int wrong = 0;
    std::vector<double> times;  ///< milliseconds until the last survivor's report, per run
  };
  [[nodiscard]] std::string repeats() const;
  void end_run();

  std::string name_;
  Settings settings_;
  Setting setting_;
  std::map<std::string, Row> rows_;
  Row* row_ = nullptr;  ///< of the current run
  double latest_ = -1;  ///< time of its latest survivor; below 0: none has reported
  double worst_ = 0;
  std::string repeats_worst_;
  double worst_destruction_ = 0;
  int late_ = 0;
  int reported_ = 0;
  int unreported_ = 0;
};

[[nodiscard]] int kills(Settings settings, int victims);
[[nodiscard]] int shrink(Settings settings);
[[nodiscard]] int cost();
[[nodiscard]] int encryption();
[[nodiscard]] int unauthenticated(std::size_t connections);
/// Cost of starting jobs with these numbers of ranks. `over_tcp`: without shared memory.
[[nodiscard]] int start(const std::vector<int>& sizes, int runs, bool over_tcp);

}  // namespace tutti::soak
