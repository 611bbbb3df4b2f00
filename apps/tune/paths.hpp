#pragma once

#include <array>
#include <chrono>
#include <memory>

#include "../bench/device_calls.hpp"
#include "../bench/implementations.hpp"
#include "../workload.hpp"
#include "choice.hpp"

namespace tutti::app::tune {

/// The direct path and plain NCCL, measured in turns on the same buffers. All calls are collective.
class Paths {
 public:
  /// The job's communicator must have a direct path, and take it for all sizes. Throws Error.
  Paths(JobSession& job, std::chrono::nanoseconds min_time);
  Paths(const Paths&) = delete;
  Paths& operator=(const Paths&) = delete;

  /// Whether tutti's calls take the direct path.
  [[nodiscard]] bool has_direct();
  /// The memory of the calls.
  enum class Kind {
    ordinary,
    in_windows,  ///< from Communicator::allocate_device()
  };
  /// Median times of a call in throughput mode, of the slowest rank: the same on all ranks. Throws
  /// Error{system} on all ranks if a result of the direct path is wrong.
  [[nodiscard]] Timed measure(Operation operation, Kind kind, std::size_t bytes);

 private:
  static constexpr std::size_t paths = 2;

  /// The slowest rank's time of one of `calls` calls that are queued together.
  [[nodiscard]] double seconds_of_call(bench::Implementation& path, std::size_t calls);
  void require_right(Workload& workload);
  [[nodiscard]] CallSpec spec_of(Operation operation, Kind kind, std::size_t bytes) const;
  void prepare(Workload& workload);

  JobSession& job_;
  std::chrono::nanoseconds min_time_;
  bench::DeviceCalls device_;
  std::array<std::unique_ptr<bench::Implementation>, paths> paths_;  ///< the direct path, NCCL
};

}  // namespace tutti::app::tune
