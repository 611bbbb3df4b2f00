#pragma once

#include "launch/launcher.hpp"

/// Nested launchers. Pure functions.
namespace tutti::launch {

/// True if the PMI or PMIx of `mpi` is Slurm's.
[[nodiscard]] bool is_slurm_pmi(const EnvironmentMap& environment, const Claim& mpi);

/// True within a job of Slurm but outside its steps: srun has not started this process; it is the
/// batch script itself or a shell of salloc.
[[nodiscard]] bool is_outside_step(const EnvironmentMap& environment);

/// An MPI launcher for which it is ambiguous whether it runs inside torchrun or the reverse; null
/// if there is none. If it started torchrun's agents, one each, its numbers equal torchrun's
/// (GROUP_RANK, GROUP_WORLD_SIZE). Otherwise torchrun may have started several mpiruns, each with
/// the same rank numbers.
[[nodiscard]] const Claim* ambiguous_mpi_launcher(const EnvironmentMap& environment,
                                                  const std::vector<Claim>& claims);

/// An identity shared by the ranks of one mpirun only; empty if unknown.
[[nodiscard]] std::string mpirun_identity(const EnvironmentMap& environment);

}  // namespace tutti::launch
