#include "launch/nesting.hpp"

#include <algorithm>
#include <array>

namespace tutti::launch {
namespace {

/// Empty where it is unset.
std::string_view value_of(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

/// Started by hand wherever. Others (Flux, PALS, jsrun) are a cluster's own: they start torchrun's
/// agents, and torchrun does not start them.
bool may_be_nested(const Claim& claim) {
  constexpr std::array<std::string_view, 4> names{"Open MPI", "MVAPICH", "Hydra", "PMI"};
  return std::find(names.begin(), names.end(), claim.launcher) != names.end();
}

}  // namespace

bool is_of_srun(const EnvironmentMap& environment, const Claim& mpi) {
  if (mpi.launcher == "PMIx") return value_of(environment, "PMIX_NAMESPACE").starts_with("slurm.");
  const auto job = value_of(environment, "SLURM_JOB_ID");
  return mpi.launcher == "PMI" && !job.empty() &&
         value_of(environment, "PMI_JOBID").starts_with(std::string(job) + ".");
}

bool is_outside_of_steps(const EnvironmentMap& environment) {
  return !value_of(environment, "SLURM_JOB_ID").empty() &&
         value_of(environment, "SLURM_STEP_ID").empty() &&
         value_of(environment, "SLURM_STEP_NUM_TASKS").empty();
}

const Claim* rival_of_torchrun(const EnvironmentMap& environment,
                               const std::vector<Claim>& claims) {
  const auto first = [&](Kind kind) {
    return std::find_if(claims.begin(), claims.end(),
                        [kind](const Claim& claim) { return claim.kind == kind; });
  };
  const auto mpi = first(Kind::mpi);
  if (first(Kind::elastic) == claims.end() || mpi == claims.end()) return nullptr;
  if (!may_be_nested(*mpi) || is_of_srun(environment, *mpi)) return nullptr;
  const bool started_the_agents = mpi->rank && mpi->size &&
                                  mpi->rank->text == value_of(environment, "GROUP_RANK") &&
                                  mpi->size->text == value_of(environment, "GROUP_WORLD_SIZE");
  // Every mpirun of one rank looks as if it had started the agent of a job on one host.
  const bool is_one_of_many =
      mpi->size && mpi->size->text == "1" && mpirun_identity(environment).empty();
  return started_the_agents && !is_one_of_many ? nullptr : &*mpi;
}

std::string mpirun_identity(const EnvironmentMap& environment) {
  if (value_of(environment, "OMPI_COMM_WORLD_RANK").empty()) return {};
  return std::string(value_of(environment, "PMIX_NAMESPACE"));
}

}  // namespace tutti::launch
