#pragma once

#include "launch/launcher.hpp"

/// Launchers that run within each other's jobs. Pure functions.
namespace tutti::launch {

/// True if the PMI or PMIx of `mpi` is Slurm's own.
[[nodiscard]] bool is_of_srun(const EnvironmentMap& environment, const Claim& mpi);

/// True within a job of Slurm, but outside of its steps: srun has not started this process. It is
/// the batch script's own body, or a shell of salloc.
[[nodiscard]] bool is_outside_of_steps(const EnvironmentMap& environment);

/// The MPI launcher of which nobody can tell whether it is nearer than torchrun; null where there
/// is none. One that has started torchrun's agents, one each, numbers them as torchrun does
/// (GROUP_RANK, GROUP_WORLD_SIZE). Else torchrun may have started several mpiruns, and ranks of one
/// number in each.
[[nodiscard]] const Claim* rival_of_torchrun(const EnvironmentMap& environment,
                                             const std::vector<Claim>& claims);

/// What the ranks of one mpirun have in common, and those of two have not; empty where it is not
/// known.
[[nodiscard]] std::string mpirun_identity(const EnvironmentMap& environment);

}  // namespace tutti::launch
