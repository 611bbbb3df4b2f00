#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/device_span.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// What is logged: the level itself and those before it.
enum class LogLevel : std::uint8_t {
  quiet,    ///< nothing
  warning,  ///< what a person should look at
  info,     ///< which paths and sources were chosen, and why
  debug,    ///< all
};

/// Who moves a communicator's data.
enum class BackendChoice : std::uint8_t {
  automatic,  ///< host memory, and device memory if every rank has a GPU
  host,       ///< host memory only; does not look for devices
  nccl,       ///< as automatic, but Error{usage} if NCCL can't be used
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
struct CallOptions {
  /// Time limit of the call, from its start. Default: the communicator's.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// Of send, recv and send_recv in host memory: messages with different tags may overtake each
  /// other. Below UINT32_MAX.
  std::uint32_t tag = 0;
  /// Of collectives in host memory: a name as in docs/algorithms.md. Empty: chosen by size. The
  /// text must last until the call, or the start of a non-blocking one, has returned.
  std::string_view algorithm = {};
  /// Of calls on device memory, and of barrier(): where the call is enqueued. Default: CUDA's
  /// legacy default stream, as for 0 in NCCL. Error{usage} for a call on host memory.
  std::optional<Stream> stream = std::nullopt;
};

}  // namespace tutti
