#pragma once

#include <array>
#include <functional>
#include <string>

#include "device/setup_exchange.hpp"
#include "device/tuning.hpp"

namespace tutti::device::direct {

/// Calls in which a rank sends up to these many bytes to its peers together take packets, chunks,
/// or, if their buffers are in windows, windows; NCCL takes larger ones. 0: never.
struct Limits {
  std::size_t packets = 0;
  std::size_t chunks = 0;
  std::size_t windows = 0;

  friend bool operator==(const Limits&, const Limits&) = default;
};

/// Where NCCL became faster on two H200 with NVLink (docs/performance.md). Windows were not
/// measured: they are used where `tutti tune` has.
[[nodiscard]] Limits built_in_limits(Operation operation);
/// What `tutti tune` has measured, on ordinary memory and in windows.
struct Measured {
  TunedLimits direct{};
  TunedLimits windows{};
};
/// Of `ranks` ranks; a barrier's are the built-in ones.
[[nodiscard]] Limits measured_limits(Operation operation, const Measured& measured, int ranks);

/// Where a rank finds measured limits.
struct TuningSource {
  std::string file;  ///< empty: none
  TuningKey key;
  /// Called on rank 0 if the file is unusable.
  std::function<void(const std::string&)> warn;
};

/// A communicator's limits, the same on all ranks.
class LimitTable {
 public:
  /// The built-in ones.
  LimitTable();
  /// From rank 0's file, or the built-in ones if it has no entry for the key. Collective.
  LimitTable(const TuningSource& source, int rank, int ranks, SetupExchange& setup);

  [[nodiscard]] Limits of(Operation operation) const {
    return limits_[static_cast<std::size_t>(operation)];
  }
  /// "measured by `tutti tune`, in FILE", or "built in: FILE is not there"; the file on rank 0
  /// only.
  [[nodiscard]] const std::string& origin() const { return origin_; }

 private:
  std::array<Limits, operation_count> limits_{};
  std::string origin_ = "built in";
};

}  // namespace tutti::device::direct
