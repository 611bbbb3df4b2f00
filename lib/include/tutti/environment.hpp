#pragma once

#include <string>

#include "tutti/communicator.hpp"
#include "tutti/export.hpp"

namespace tutti {

/// Makes a communicator without MPI, from environment variables: those of torchrun (RANK,
/// WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), set by a launcher or by hand, or TUTTI_RANK,
/// TUTTI_SIZE and TUTTI_INIT. If none is set, the process is rank 0 of 1. docs/environment.md has
/// the precedence of the sources and the address at which rank 0 listens.
///
/// Collective over all ranks of the job; may be called again for another communicator. Throws
/// Error{usage} for contradictory or invalid variables, Error{timeout} that names the missing
/// ranks, and Error{mismatch, peer_lost, system}.
[[nodiscard]] TUTTI_EXPORT Communicator from_environment(const Options& options = {});

/// For a Bootstrap over MPI: throws Error{usage} if the launcher's variables, or RANK and
/// WORLD_SIZE, contradict `world_rank` and `world_size`, those of MPI_COMM_WORLD. Returns a text
/// about sources that MPI overrides: "", or ", overrides Slurm (SLURM_PROCID=0 …)".
[[nodiscard]] TUTTI_EXPORT std::string check_launcher(int world_rank, int world_size,
                                                      const std::string& mpi);

/// For the timeout message of a Bootstrap: describes TCP connections of this process, MPI's own
/// included, whose data has been retransmitted without an acknowledgement, with a remedy if only
/// large packets are lost. The end of a sentence ("; 4344 bytes that node1 has sent to …"), or "".
[[nodiscard]] TUTTI_EXPORT std::string unacknowledged_data();

}  // namespace tutti
