#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/call_history.hpp"
#include "rendezvous/peers.hpp"

/// The recorder's file: what one rank did last, for `tutti trace`.
namespace tutti::control {

using Histories = std::vector<std::shared_ptr<CallHistory>>;

/// JSON. Times are microseconds of the wall clock since 1970, so that ranks can be laid side by
/// side.
[[nodiscard]] std::string record_json(const rendezvous::Peers& peers, const Histories& histories,
                                      const std::string& reason);

/// Writes it to FOLDER/rankR-pidP.json, in place of an earlier one. Empty, or why it could not be.
[[nodiscard]] std::string write_record(const std::string& folder, const rendezvous::Peers& peers,
                                       const Histories& histories, const std::string& reason);

/// From now on SIGUSR1 counts in record_requests(); nothing is done where the program has a handler
/// of its own.
void watch_record_signal();
[[nodiscard]] unsigned record_requests();

}  // namespace tutti::control
