#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "tutti/export.hpp"

namespace tutti {

/// What kind of failure an Error is.
enum class ErrorCode : std::uint8_t {
  timeout,    ///< a deadline passed; `failed_ranks` are the ranks that were waited for
  peer_lost,  ///< a rank died or its host is unreachable; `failed_ranks` are the lost ranks, the
              ///< same set on every survivor
  mismatch,   ///< two ranks made different calls; the message describes both
  aborted,    ///< a rank called abort() or failed by its own error; `failed_ranks` names it
  usage,      ///< an argument, a setting or the environment is unusable; nothing was sent
  system,     ///< the operating system, NCCL or CUDA reported an error, or the data connection to
              ///< a living rank broke; the message has the reason
};

/// "peer_lost"
[[nodiscard]] TUTTI_EXPORT const char* name(ErrorCode code) noexcept;

/// What every failing call throws. what() is the message: one sentence.
///
/// After peer_lost, timeout, mismatch, aborted and a system error of a call the communicator is
/// unusable: each later call throws the same error. After peer_lost, shrink() makes a new one.
class TUTTI_EXPORT Error : public std::exception {
 public:
  /// For a Bootstrap, or for a program's own errors. `failed_ranks` are ranks of the job, in
  /// ascending order.
  Error(ErrorCode code, std::string sentence, std::vector<int> failed_ranks = {})
      : code_(code), sentence_(std::move(sentence)), failed_ranks_(std::move(failed_ranks)) {}

  /// The message, as of any std::exception: sentence().
  [[nodiscard]] const char* what() const noexcept override { return sentence_.c_str(); }
  /// What kind of failure it is.
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// what() as a std::string, nothing more: what happened, where, and what can be changed.
  [[nodiscard]] const std::string& sentence() const noexcept { return sentence_; }
  /// Ranks of the job that caused it, in ascending order; empty where none can be named.
  [[nodiscard]] const std::vector<int>& failed_ranks() const noexcept { return failed_ranks_; }
  /// The rank that threw it; -1 before the rank is known.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// The host of that rank; empty before it is known.
  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  /// The call that threw it ("all_reduce of 4 f32, sum"); empty outside a call.
  [[nodiscard]] const std::string& operation() const noexcept { return operation_; }
  /// The number of that call on its communicator.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// True on the one rank that should print the sentence for the whole job: the lowest that
  /// survives. True, too, for an error of this rank alone.
  [[nodiscard]] bool speaks_for_job() const noexcept { return speaks_for_job_; }

 private:
  friend class ErrorBuilder;

  ErrorCode code_;
  std::string sentence_;
  std::vector<int> failed_ranks_;
  int rank_ = -1;
  std::string host_;
  std::string operation_;
  std::uint64_t sequence_ = 0;
  bool speaks_for_job_ = true;
};

/// Prints `error` once for the whole job: on the rank that speaks for it, as
/// "program: sentence" on standard error. On other ranks it sleeps for 0.8 s instead: a launcher
/// kills all ranks when the first one exits, which must not be before that rank has printed.
TUTTI_EXPORT void report_once(const Error& error) noexcept;

/// Reports `error` once for the whole job, then ends this process with exit status 1, without
/// destructors and exit handlers, which may wait for ranks that never come. For the `catch` in
/// main(). Programs that have called MPI_Init call the form in tutti/mpi.hpp, which ends MPI's job.
[[noreturn]] TUTTI_EXPORT void abort_after(const Error& error) noexcept;

}  // namespace tutti
