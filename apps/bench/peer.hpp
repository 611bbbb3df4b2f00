#pragma once

#include <optional>
#include <string>
#include <utility>

#include "../call_spec.hpp"

namespace tutti::app::bench {

/// One rank's call with its buffers, which all peers share.
struct Task {
  CallSpec spec;
  BufferLayout layout;
  void* send = nullptr;
  void* recv = nullptr;
  std::optional<Stream> stream = std::nullopt;  ///< set where the buffers are in device memory
};

/// A library in the comparison, tutti included. One object per rank; all calls are collective and
/// come in the same order on all ranks.
class Peer {
 public:
  Peer(std::string name, std::string version)
      : name_(std::move(name)), version_(std::move(version)) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;

  /// "mpi"
  [[nodiscard]] const std::string& name() const { return name_; }
  /// "Open MPI v4.1.4"
  [[nodiscard]] const std::string& version() const { return version_; }

  /// Gets ready for run() of `task`, in place of the task before. Returns why it can't do it, the
  /// same on all ranks: "MPI has no average"; empty if it can.
  [[nodiscard]] virtual std::string prepare(const Task& task) = 0;
  /// The call that is timed. In device memory it is queued on the task's stream. Throws Error.
  virtual void run() = 0;
  /// After each timed run(), untimed: completes what the next peer must not be disturbed by.
  virtual void settle() {}
  /// Before a check, untimed: moves a result that lies elsewhere than the layout says.
  virtual void place_result() {}
  /// False where it only takes the time that something else would: then there is no result.
  [[nodiscard]] virtual bool computes() const { return true; }
  /// Whether an input that no result overwrites is as it was.
  [[nodiscard]] virtual bool keeps_input() const { return true; }
  /// Of the latest run(); empty where it is not known.
  [[nodiscard]] virtual std::string algorithm() const { return {}; }

 private:
  std::string name_;
  std::string version_;
};

}  // namespace tutti::app::bench
