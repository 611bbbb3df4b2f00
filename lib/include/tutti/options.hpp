#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tutti/error.hpp"

namespace tutti {

enum class LogLevel : std::uint8_t { quiet, warning, info, debug };

/// Which memory and which links a communicator serves.
enum class BackendChoice : std::uint8_t {
  automatic,  ///< host memory, and device memory where every rank has a GPU of its own and NCCL
  host,       ///< host memory only; devices are not even looked at
  device,     ///< as automatic, but Error{usage} where the device path can't be
};

/// How a communicator is made. What is left empty comes from the environment (docs/environment.md),
/// then from the default.
struct Options {
  /// Bound on set-up and on each call that names none of its own. Default: TUTTI_TIMEOUT, else 60
  /// s.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// The same on all ranks. Default: TUTTI_BACKEND, else automatic.
  std::optional<BackendChoice> backend = std::nullopt;
  /// Reductions in host memory combine in the order of ranks, so that results have the same bits
  /// whatever the chunking, the algorithm, and the way in which data is cut into calls. The same on
  /// all ranks. Default: TUTTI_DETERMINISTIC, else no.
  std::optional<bool> deterministic = std::nullopt;
  /// Where warnings and notes go, one line each without a line end. Default: standard error,
  /// prefixed with the rank. Called from any thread; must not throw.
  std::function<void(LogLevel, const std::string&)> log = nullptr;
  /// Default: TUTTI_LOG, else warning.
  std::optional<LogLevel> log_level = std::nullopt;
  /// A call is inside NCCL and does not come back although it was ended: the thread that made it is
  /// lost, and an ordinary end of the process may wait for it for ever. Called once, from another
  /// thread, with what all ranks have agreed on; may leave by `_exit`. Default: a warning.
  std::function<void(const Error&)> on_stuck = nullptr;
  /// Calls that wait also drive MPI, for programs that have MPI requests open meanwhile: a peer may
  /// need this rank's progress in MPI before it comes to the call. Of from_mpi() only; costs a look
  /// at MPI every 100 us of waiting. Each rank may choose for itself.
  bool mpi_progress = false;
  /// Called every 100 us or so by a thread that waits in a call. Must not throw, nor use the
  /// communicator. Default: nothing.
  std::function<void()> while_waiting = nullptr;
};

/// Settings of one call. All ranks of the call pass the same `algorithm`.
struct Call {
  /// Default: the communicator's.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// send, recv and send_recv: messages with different tags pass each other.
  std::uint32_t tag = 0;
  /// Name as in docs/algorithms.md; empty: chosen by size.
  std::string algorithm = {};
};

}  // namespace tutti
