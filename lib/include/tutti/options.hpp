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

/// A level includes the levels before it.
enum class LogLevel : std::uint8_t {
  quiet,    ///< nothing
  warning,  ///< problems
  info,     ///< the chosen paths and sources, with reasons
  debug,    ///< everything
};

/// Which memory a communicator accepts, and the library that moves data in device memory.
enum class BackendChoice : std::uint8_t {
  automatic,  ///< host memory, and device memory if every rank has a GPU
  host,       ///< `--backend cpu`: host memory only; does not look for devices
  nccl,       ///< as automatic, but Error{usage} if NCCL can't be used
};

/// Options of a communicator. An empty member takes its value from the environment
/// (docs/environment.md), else the default.
struct Options {
  /// Timeout of set-up, and of each call without its own timeout. Default: TUTTI_TIMEOUT, else
  /// 60 s.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// The same on all ranks. Default: TUTTI_BACKEND, else automatic.
  std::optional<BackendChoice> backend = std::nullopt;
  /// This rank's device, as an index among those that the process sees. Error{usage} on all ranks
  /// if there are devices, but not this one. Default: the local rank, or the only device that the
  /// process sees.
  std::optional<int> device = std::nullopt;
  /// Reductions in host memory combine contributions in rank order, so that the bits of the result
  /// do not depend on the chunk size, the algorithm, or how data is divided into calls. The same on
  /// all ranks. Default: TUTTI_DETERMINISTIC, else false.
  std::optional<bool> deterministic = std::nullopt;
  /// Receives log lines, without a line end. Default: writes them to standard error, prefixed with
  /// the rank. Called from any thread; must not throw.
  std::function<void(LogLevel, const std::string&)> log = nullptr;
  /// Default: TUTTI_LOG, else warning.
  std::optional<LogLevel> log_level = std::nullopt;
  /// Called if a call does not return from NCCL after ncclCommAbort: its thread never returns, and
  /// an ordinary exit of the process may wait for that thread forever. Called once, from another
  /// thread, with the agreed error; may call `_exit`. Default: logs a warning.
  std::function<void(const Error&)> on_stuck = nullptr;
  /// A call that waits also polls MPI every 100 us, for programs with pending MPI requests: another
  /// rank may need this rank's progress in MPI before it can make the call. Only from_mpi() uses
  /// it. Ranks may have different values.
  bool mpi_progress = false;
  /// Called about every 100 us by a thread that waits in a call. Must not throw or use the
  /// communicator. Default: none.
  std::function<void()> while_waiting = nullptr;
};

/// Settings of one call. All ranks of the call pass the same `algorithm`.
struct CallOptions {
  /// Timeout of the call, from its start. Default: that of the communicator.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// For send, recv and send_recv in host memory: messages with different tags may overtake each
  /// other. Less than UINT32_MAX.
  std::uint32_t tag = 0;
  /// For collectives in host memory: a name from docs/algorithms.md. Empty: tutti chooses. The text
  /// must stay valid until the call returns.
  std::string_view algorithm = {};
  /// For calls on device memory and barrier(): where the call is enqueued. Default: CUDA's
  /// legacy default stream, as for 0 in NCCL. Error{usage} for a call on host memory.
  std::optional<Stream> stream = std::nullopt;
};

}  // namespace tutti
