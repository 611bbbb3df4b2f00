#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/call_history.hpp"
#include "rendezvous/peers.hpp"

/// The recorder's file with one rank's latest calls, for `tutti trace`.
namespace tutti::control {

using Histories = std::vector<std::shared_ptr<CallHistory>>;

/// Returns JSON. Times are microseconds of the wall clock since 1970, so that the files of several
/// ranks can be aligned.
[[nodiscard]] std::string record_json(const rendezvous::Peers& peers, const Histories& histories,
                                      const std::string& reason);

/// Writes it to FOLDER/rankR-pidP.json, replacing an earlier file. Returns an error text, or an
/// empty one.
[[nodiscard]] std::string write_record(const std::string& folder, const rendezvous::Peers& peers,
                                       const Histories& histories, const std::string& reason);

/// Installs a SIGUSR1 handler that increments record_requests(), unless the program has its own
/// handler.
void install_record_signal_handler();
[[nodiscard]] unsigned record_requests();

}  // namespace tutti::control
