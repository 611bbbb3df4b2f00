#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tutti/export.hpp"

namespace tutti {

enum class ErrorCode : std::uint8_t {
  timeout,    ///< a deadline passed; `failed_ranks` are the ranks that were waited for
  peer_lost,  ///< a rank died or its host is unreachable; `failed_ranks` are the lost ranks, the
              ///< same set on every survivor
  mismatch,   ///< two ranks made different calls; the sentence describes both
  aborted,    ///< a rank called abort() or gave up; `failed_ranks` names it
  usage,      ///< an argument, a setting or the environment is unusable; nothing was sent
  system,     ///< the operating system refused something; the sentence has its reason
};

[[nodiscard]] TUTTI_EXPORT const char* name(ErrorCode code) noexcept;

/// What every failing call throws. `what()` is one sentence that a person can act on.
///
/// After peer_lost, timeout, mismatch and aborted the communicator is broken: each later call
/// throws the same error again.
class TUTTI_EXPORT Error : public std::exception {
 public:
  Error(ErrorCode code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}

  [[nodiscard]] const char* what() const noexcept override { return sentence_.c_str(); }
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& sentence() const noexcept { return sentence_; }
  /// Ranks of the job that caused it, ascending; empty where none can be named.
  [[nodiscard]] const std::vector<int>& failed_ranks() const noexcept { return failed_ranks_; }
  /// The rank that threw and its host; -1 and empty before they are known.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  /// The call it happened in ("all_reduce of 4 f32, sum"), empty outside a call, and its sequence
  /// number.
  [[nodiscard]] const std::string& operation() const noexcept { return operation_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// True on the one rank that should print the sentence for the whole job: the lowest that
  /// survives.
  [[nodiscard]] bool speaks_for_job() const noexcept { return speaks_for_job_; }

  Error& with_failed_ranks(std::vector<int> failed_ranks) {
    failed_ranks_ = std::move(failed_ranks);
    return *this;
  }
  Error& at(int rank, std::string host) {
    rank_ = rank;
    host_ = std::move(host);
    return *this;
  }
  Error& in(std::string operation, std::uint64_t sequence) {
    operation_ = std::move(operation);
    sequence_ = sequence;
    return *this;
  }
  Error& speaking(bool speaks_for_job) {
    speaks_for_job_ = speaks_for_job;
    return *this;
  }

 private:
  ErrorCode code_;
  std::string sentence_;
  std::vector<int> failed_ranks_;
  int rank_ = -1;
  std::string host_;
  std::string operation_;
  std::uint64_t sequence_ = 0;
  bool speaks_for_job_ = true;
};

}  // namespace tutti
