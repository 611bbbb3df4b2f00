#pragma once

#include <atomic>
#include <string>

#include "base/log.hpp"
#include "control/call_histories.hpp"
#include "rendezvous/peers.hpp"

/// The recorder's file with one rank's latest calls, for `tutti trace`.
namespace tutti::control {

/// Returns JSON. Times are microseconds of the wall clock since 1970, so that the files of several
/// ranks can be aligned.
[[nodiscard]] std::string record_json(const rendezvous::Peers& peers,
                                      const CallHistories& histories, const std::string& reason);

/// Writes it to FOLDER/rankR-pidP.json, replacing an earlier file. Returns an error text, or an
/// empty one.
[[nodiscard]] std::string write_record(const std::string& folder, const rendezvous::Peers& peers,
                                       const CallHistories& histories, const std::string& reason);

/// Writes this rank's latest calls to TUTTI_RECORD, if that is set: at a failure, and at SIGUSR1
/// unless the program has its own handler.
class Recorder {
 public:
  /// `folder`: empty to record nothing. The references must outlive it.
  Recorder(std::string folder, const rendezvous::Peers& peers, const CallHistories& histories,
           Log& log);

  /// Writes at the first failure only. From any thread.
  void write_failure(const std::string& sentence);
  /// Writes if there was a SIGUSR1 since the last call. For one thread.
  void write_if_signalled();

 private:
  void write(const std::string& reason) const;

  std::string folder_;
  const rendezvous::Peers& peers_;
  const CallHistories& histories_;
  Log& log_;
  unsigned signals_seen_ = 0;
  std::atomic<bool> has_failure_ = false;
};

}  // namespace tutti::control
