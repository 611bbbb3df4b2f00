#pragma once

#include <optional>
#include <string>
#include <utility>

#include "../call_spec.hpp"

namespace tutti::app::bench {

/// One rank's call and its buffers. All implementations use the same buffers.
struct Task {
  CallSpec spec;
  BufferLayout layout;
  void* send = nullptr;
  void* recv = nullptr;
  std::optional<Stream> stream = std::nullopt;  ///< set if the buffers are in device memory
};

/// A library in the comparison: tutti, or a baseline of it. One object per rank. All calls are
/// collective, in the same order on all ranks.
class Implementation {
 public:
  Implementation(std::string name, std::string version)
      : name_(std::move(name)), version_(std::move(version)) {}
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  /// "mpi"
  [[nodiscard]] const std::string& name() const { return name_; }
  /// "Open MPI v4.1.4"
  [[nodiscard]] const std::string& version() const { return version_; }

  /// Prepares run() of `task` and drops the previous task. Returns why the implementation does not
  /// support it, the same on all ranks: "MPI has no average". Empty if it does.
  [[nodiscard]] virtual std::string prepare(const Task& task) = 0;
  /// The timed call. With device buffers it only queues work on the task's stream. Throws Error.
  virtual void run() = 0;
  /// Called after each timed run(), not timed: completes work that would disturb the next
  /// implementation.
  virtual void drain() {}
  /// Called before a check's run(), not timed: takes the input to where the implementation wants
  /// it.
  virtual void take_input() {}
  /// Called before a check, not timed: moves the result to its place in the layout.
  virtual void place_result() {}
  /// False if the implementation only takes as long as a bound, and produces no result.
  [[nodiscard]] virtual bool computes() const { return true; }
  /// Whether the implementation leaves the input unchanged, unless the result overwrites it.
  [[nodiscard]] virtual bool keeps_input() const { return true; }
  /// Algorithm of the latest run(); empty if unknown.
  [[nodiscard]] virtual std::string algorithm() const { return {}; }

 private:
  std::string name_;
  std::string version_;
};

}  // namespace tutti::app::bench
