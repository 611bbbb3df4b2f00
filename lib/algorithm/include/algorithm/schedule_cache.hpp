#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "algorithm/schedule.hpp"
#include "base/checked_collective.hpp"

namespace tutti::algorithm {

/// The schedules of one communicator's latest calls on one rank, so that a repeated call is not
/// planned again. For one thread at a time; calls in flight share the schedules.
///
/// Two calls have the same schedule if they agree in everything except their buffers and the
/// operator; the communicator's ranks, hosts and settings do not change. v-forms agree if all
/// their counts do.
class ScheduleCache {
 public:
  /// A program repeats some tens of calls in its inner loop. To find one takes as long as comparing
  /// it with all; 32 comparisons take less than a hundredth of a short call between hosts.
  static constexpr std::size_t max_schedules = 32;
  /// As much as a communicator keeps of scratch memory. Most schedules have a few hundred bytes; of
  /// those with a pattern for each peer, which have 200 KiB for 1,000 ranks, 20 fit.
  static constexpr std::size_t max_bytes = std::size_t{4} << 20;

  /// The schedule of the same call made before with the same `algorithm`, or null. `algorithm` is
  /// the name that the caller asks for; empty: chosen by the library.
  [[nodiscard]] std::shared_ptr<const Schedule> find(const CheckedCollective& call,
                                                     std::string_view algorithm);
  /// Keeps the schedule that find() has not found, in place of the least recently used ones. One
  /// larger than max_bytes is only returned. `algorithm` must outlive the cache.
  std::shared_ptr<const Schedule> insert(const CheckedCollective& call, std::string_view algorithm,
                                         Schedule schedule);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Size of all kept schedules and counts.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    CheckedCollective call;  ///< its counts are the two vectors
    std::string_view algorithm;
    std::uint64_t used = 0;  ///< number of the latest find() or insert()
    std::vector<std::size_t> counts;
    std::vector<std::size_t> recv_counts;
    std::shared_ptr<const Schedule> schedule;
    std::size_t bytes = 0;
  };

  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace tutti::algorithm
