#include "launch/nesting.hpp"

#include <algorithm>
#include <array>

namespace tutti::launch {
namespace {

/// Empty if unset.
std::string_view value_of(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

/// Users start these within other jobs. Others (Flux, PALS, jsrun) belong to a cluster: they start
/// torchrun's agents, never the reverse.
bool may_be_nested(const Claim& claim) {
  constexpr std::array<std::string_view, 4> names{"Open MPI", "MVAPICH", "Hydra", "PMI"};
  return std::find(names.begin(), names.end(), claim.launcher) != names.end();
}

}  // namespace

bool is_slurm_pmi(const EnvironmentMap& environment, const Claim& mpi) {
  if (mpi.launcher == "PMIx") return value_of(environment, "PMIX_NAMESPACE").starts_with("slurm.");
  const auto job = value_of(environment, "SLURM_JOB_ID");
  return mpi.launcher == "PMI" && !job.empty() &&
         value_of(environment, "PMI_JOBID").starts_with(std::string(job) + ".");
}

bool is_outside_step(const EnvironmentMap& environment) {
  return !value_of(environment, "SLURM_JOB_ID").empty() &&
         value_of(environment, "SLURM_STEP_ID").empty() &&
         value_of(environment, "SLURM_STEP_NUM_TASKS").empty();
}

const Claim* ambiguous_mpi_launcher(const EnvironmentMap& environment,
                                    const std::vector<Claim>& claims) {
  const auto first = [&](LauncherKind kind) {
    return std::find_if(claims.begin(), claims.end(),
                        [kind](const Claim& claim) { return claim.kind == kind; });
  };
  const auto mpi = first(LauncherKind::mpi);
  if (first(LauncherKind::elastic) == claims.end() || mpi == claims.end()) return nullptr;
  if (!may_be_nested(*mpi) || is_slurm_pmi(environment, *mpi)) return nullptr;
  const bool started_the_agents = mpi->rank && mpi->size &&
                                  mpi->rank->text == value_of(environment, "GROUP_RANK") &&
                                  mpi->size->text == value_of(environment, "GROUP_WORLD_SIZE");
  // Any mpirun with one rank looks like the launcher of an agent on one host.
  const bool is_one_of_many =
      mpi->size && mpi->size->text == "1" && mpirun_identity(environment).empty();
  return started_the_agents && !is_one_of_many ? nullptr : &*mpi;
}

std::string mpirun_identity(const EnvironmentMap& environment) {
  if (value_of(environment, "OMPI_COMM_WORLD_RANK").empty()) return {};
  return std::string(value_of(environment, "PMIX_NAMESPACE"));
}

}  // namespace tutti::launch
