#pragma once

#include <string>

#include "tutti/communicator.hpp"
#include "tutti/export.hpp"

namespace tutti {

/// A communicator without MPI, by the environment alone: torchrun's variables (RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR, MASTER_PORT), the same by hand, or TUTTI_RANK, TUTTI_SIZE and
/// TUTTI_INIT. Where nothing is set, the process is alone: rank 0 of 1. docs/environment.md has the
/// order of sources and where the ranks meet.
///
/// Collective over all ranks of the job; may be called again for another communicator. Throws
/// Error{usage} for contradictory or unusable variables, timeout that names the ranks that are
/// missing, mismatch, peer_lost, system.
[[nodiscard]] TUTTI_EXPORT Communicator from_environment(const Options& options = {});

/// For bootstraps over MPI: throws Error{usage} where what has started this process, or RANK and
/// WORLD_SIZE by hand, contradict the rank and size that MPI gives in MPI_COMM_WORLD. Returns what
/// else the environment says, for people: "", or ", shadows Slurm (SLURM_PROCID=0 …)".
[[nodiscard]] TUTTI_EXPORT std::string check_launcher(int world_rank, int world_size,
                                                      const std::string& mpi);

/// For bootstraps that wait in vain: what TCP connections of this process, MPI's own included, have
/// sent again and again without an acknowledgement, and what to do where only large packets get
/// lost. As the end of a sentence ("; 4344 bytes that node1 has sent to …"), or "".
[[nodiscard]] TUTTI_EXPORT std::string unacknowledged_data();

}  // namespace tutti
