#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tutti/deadline.hpp"

namespace tutti::control {

/// Progress of the control links in set-up. The control thread enters it; the thread that makes the
/// job waits for it.
class LinkSetup {
 public:
  struct Progress {
    std::set<int> missing;  ///< neighbours without a control link
    std::string failure;    ///< why one of them can have none; mostly empty
  };

  explicit LinkSetup(const std::vector<int>& neighbours)
      : progress_{.missing = {neighbours.begin(), neighbours.end()}, .failure = {}} {}
  LinkSetup(const LinkSetup&) = delete;
  LinkSetup& operator=(const LinkSetup&) = delete;

  /// Waits until all links are established, one has failed or the set-up is cancelled. False after
  /// `limit`.
  bool wait_for(std::chrono::nanoseconds limit);
  /// The same, at most until the deadline. Returns the progress then.
  [[nodiscard]] Progress wait(const Deadline& deadline);
  [[nodiscard]] bool is_complete() const;

  // For the control thread:
  void add_link(int neighbour);
  void fail(std::string reason);
  /// The job has failed: nobody waits for links any more.
  void cancel();

 private:
  [[nodiscard]] bool is_over() const {
    return progress_.missing.empty() || !progress_.failure.empty() || cancelled_;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Progress progress_;
  bool cancelled_ = false;
};

}  // namespace tutti::control
