#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "../job_session.hpp"
#include "peer.hpp"

namespace tutti::app::bench {

/// Valid names for --vs: "mpi", …
[[nodiscard]] std::vector<std::string> peer_names();
/// "0.5.0", or "not built in".
[[nodiscard]] std::string gloo_version();

/// Creates the peer with that name. Collective. Throws Error{usage} on all ranks if it is not
/// available.
[[nodiscard]] std::unique_ptr<Peer> make_peer(const std::string& name, JobSession& job,
                                              std::chrono::nanoseconds timeout);
/// Creates tutti's own peer.
[[nodiscard]] std::unique_ptr<Peer> make_tutti_peer(JobSession& job);

// Called by make_peer(). Each is defined in the file of its name.
[[nodiscard]] std::unique_ptr<Peer> make_copies_peer(JobSession& job);
[[nodiscard]] std::unique_ptr<Peer> make_mpi_peer(JobSession& job);
[[nodiscard]] std::unique_ptr<Peer> make_gloo_peer(JobSession& job,
                                                   std::chrono::nanoseconds timeout);
/// `serial` sends to one peer after another, as tutorials do, instead of in one group.
[[nodiscard]] std::unique_ptr<Peer> make_nccl_peer(JobSession& job, bool serial);

}  // namespace tutti::app::bench
