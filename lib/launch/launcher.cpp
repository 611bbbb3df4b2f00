#include "launch/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tutti::launch {
namespace {

/// An empty variable counts as unset.
bool has(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

std::optional<Setting> first_of(const EnvironmentMap& environment,
                                const std::vector<std::string_view>& names) {
  for (const auto name : names) {
    if (has(environment, name)) return Setting{std::string(name), environment.find(name)->second};
  }
  return std::nullopt;
}

bool left_a_trace(const Launcher& launcher, const EnvironmentMap& environment) {
  return std::any_of(launcher.traces.begin(), launcher.traces.end(),
                     [&](std::string_view name) { return has(environment, name); });
}

}  // namespace

std::span<const Launcher> known_launchers() {
  // The order matters: mpirun of Open MPI and Hydra start their helpers with srun or within a job
  // of Flux, so ranks inherit the helper's variables; Flux, PALS and jsrun set PMI_ or PMIX_
  // variables besides their own; under srun --mpi=pmi2 the PMI_ variables equal Slurm's.
  static const std::vector<Launcher> launchers{
      {"tutti's own settings",
       LauncherKind::ours,
       {"TUTTI_RANK", "TUTTI_SIZE"},
       {"TUTTI_RANK"},
       {"TUTTI_SIZE"},
       {"TUTTI_LOCAL_RANK"},
       {}},
      {"torchrun",
       LauncherKind::elastic,
       {"TORCHELASTIC_RUN_ID"},
       {"RANK"},
       {"WORLD_SIZE"},
       {"LOCAL_RANK"},
       {"LOCAL_WORLD_SIZE"}},
      {"Open MPI",
       LauncherKind::mpi,
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_RANK"},
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {"MVAPICH",
       LauncherKind::mpi,
       {"MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"},
       {"MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"},
       {"MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"},
       {"MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"},
       {"MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"}},
      {"Hydra",  // of MPICH, Intel MPI and others
       LauncherKind::mpi,
       {"MPI_LOCALRANKID"},
       {"PMI_RANK"},
       {"PMI_SIZE"},
       {"MPI_LOCALRANKID"},
       {"MPI_LOCALNRANKS"}},
      {"jsrun",
       LauncherKind::mpi,
       {"JSM_NAMESPACE_RANK"},
       {"JSM_NAMESPACE_RANK"},
       {"JSM_NAMESPACE_SIZE"},
       {"JSM_NAMESPACE_LOCAL_RANK"},
       {"JSM_NAMESPACE_LOCAL_SIZE"}},
      {"PALS",
       LauncherKind::mpi,
       {"PALS_RANKID"},
       {"PALS_RANKID"},
       {"PMI_SIZE"},
       {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
       {"PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"}},
      // FLUX_JOB_SIZE is the number of hosts in some versions.
      {"Flux",
       LauncherKind::mpi,
       {"FLUX_TASK_RANK"},
       {"FLUX_TASK_RANK"},
       {"PMI_SIZE", "FLUX_JOB_SIZE"},
       {"FLUX_TASK_LOCAL_ID"},
       {}},
      {"PMI",
       LauncherKind::mpi,
       {"PMI_RANK"},
       {"PMI_RANK"},
       {"PMI_SIZE"},
       {"PMI_LOCAL_RANK"},
       {"PMI_LOCAL_SIZE"}},
      {"the environment",
       LauncherKind::by_hand,
       {"RANK", "WORLD_SIZE"},
       {"RANK"},
       {"WORLD_SIZE"},
       {"LOCAL_RANK"},
       {"LOCAL_WORLD_SIZE"}},
      // SLURM_NTASKS is the job's request; a step may have fewer tasks.
      {"Slurm",
       LauncherKind::scheduler,
       {"SLURM_PROCID"},
       {"SLURM_PROCID"},
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
       {"SLURM_LOCALID"},
       {}},
      {"PMIx", LauncherKind::mpi, {"PMIX_RANK"}, {"PMIX_RANK"}, {}, {}, {}},
  };
  return launchers;
}

std::string Claim::text() const {
  std::string settings;
  for (const auto& setting : {rank, size, local_rank, local_size}) {
    if (!setting) continue;
    settings += fmt::format("{}{}={}", settings.empty() ? "" : " ", setting->name, setting->text);
  }
  return fmt::format("{} ({})", launcher, settings);
}

std::vector<Claim> find_claims(const EnvironmentMap& environment) {
  std::vector<Claim> claims;
  for (const auto& launcher : known_launchers()) {
    if (!left_a_trace(launcher, environment)) continue;
    // torchrun set these variables.
    if (launcher.kind == LauncherKind::by_hand && has(environment, "TORCHELASTIC_RUN_ID")) continue;
    claims.push_back({.launcher = std::string(launcher.name),
                      .kind = launcher.kind,
                      .rank = first_of(environment, launcher.rank),
                      .size = first_of(environment, launcher.size),
                      .local_rank = first_of(environment, launcher.local_rank),
                      .local_size = first_of(environment, launcher.local_size)});
  }
  return claims;
}

std::span<const std::string_view> mpi_traces() {
  static constexpr std::array<std::string_view, 3> traces{"PMIX_NAMESPACE", "PMI_SIZE", "PMI_FD"};
  return traces;
}

bool started_by_mpi_launcher(const EnvironmentMap& environment) {
  const auto claims = find_claims(environment);
  return std::any_of(claims.begin(), claims.end(),
                     [](const Claim& claim) { return claim.kind == LauncherKind::mpi; }) ||
         std::any_of(mpi_traces().begin(), mpi_traces().end(),
                     [&](std::string_view name) { return has(environment, name); });
}

}  // namespace tutti::launch
