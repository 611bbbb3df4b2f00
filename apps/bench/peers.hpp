#pragma once

#include <chrono>
#include <cstdint>
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
enum class NcclForm : std::uint8_t {
  grouped,  ///< sends in one group
  serial,   ///< sends to one peer after another, as tutorials do
  windows,  ///< grouped, with buffers that NCCL has allocated and registered as symmetric windows
};
[[nodiscard]] std::unique_ptr<Peer> make_nccl_peer(JobSession& job, NcclForm form);

}  // namespace tutti::app::bench
