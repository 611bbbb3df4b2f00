#include "doctor/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/launcher.hpp"

namespace tutti::app::doctor {
namespace {

/// If the launcher is unknown, remedies are for Open MPI, as in the documentation.
bool is_open_mpi(std::string_view launcher) {
  return launcher.empty() || launcher == "Open MPI";
}

}  // namespace

std::string launcher_in(const EnvironmentMap& map) {
  const auto claims = launch::find_claims(map);
  const auto found = std::find_if(claims.begin(), claims.end(), [](const auto& claim) {
    return claim.kind != launch::LauncherKind::ours;
  });
  return found == claims.end() ? std::string() : found->launcher;
}

std::string pass_variable(std::string_view launcher, std::string_view variable) {
  if (is_open_mpi(launcher)) return fmt::format("mpirun -x {}", variable);
  if (launcher == "Slurm") return fmt::format("srun --export=ALL,{}", variable);
  if (launcher == "Hydra") {
    const auto at = variable.find('=');
    if (at == std::string_view::npos) return fmt::format("mpirun -genvlist {}", variable);
    return fmt::format("mpirun -genv {} {}", variable.substr(0, at), variable.substr(at + 1));
  }
  if (launcher == "torchrun") {
    return fmt::format("export {} on every host before torchrun starts", variable);
  }
  return fmt::format("export {} before each rank starts", variable);
}

std::string_view why_not_passed(std::string_view launcher) {
  return is_open_mpi(launcher) ? ": mpirun passes on only the variables that -x names" : "";
}

std::string unbind(std::string_view launcher, std::string_view or_else) {
  if (is_open_mpi(launcher)) return fmt::format("mpirun --bind-to none, or {}", or_else);
  if (launcher == "Slurm") return "srun --cpu-bind=none, or more --cpus-per-task";
  if (launcher == "Hydra") return "mpirun -bind-to none";
  return "start the ranks without binding (taskset, numactl), or bind each to its own cores";
}

}  // namespace tutti::app::doctor
