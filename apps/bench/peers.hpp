#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "../job_session.hpp"
#include "peer.hpp"

namespace tutti::app::bench {

/// What --vs takes: "mpi", …
[[nodiscard]] std::vector<std::string> peer_names();
/// "0.5.0", or "not built in".
[[nodiscard]] std::string gloo_version();

/// The peer of that name. Collective; throws Error{usage} on all ranks if it is not available.
[[nodiscard]] std::unique_ptr<Peer> make_peer(const std::string& name, JobSession& job,
                                              std::chrono::nanoseconds timeout);
/// tutti itself.
[[nodiscard]] std::unique_ptr<Peer> make_tutti_peer(JobSession& job);

// What make_peer() chooses from, each in the file of its name.
[[nodiscard]] std::unique_ptr<Peer> make_copies_peer(JobSession& job);
[[nodiscard]] std::unique_ptr<Peer> make_mpi_peer(JobSession& job);
[[nodiscard]] std::unique_ptr<Peer> make_gloo_peer(JobSession& job,
                                                   std::chrono::nanoseconds timeout);
/// `serial`: one send after another, as tutorials do it, and not all in a group.
[[nodiscard]] std::unique_ptr<Peer> make_nccl_peer(JobSession& job, bool serial);

}  // namespace tutti::app::bench
