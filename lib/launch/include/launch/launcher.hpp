#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.hpp"

/// Environment variables of launchers. Pure functions of an environment map.
namespace tutti::launch {

/// How a launcher's claim is to be used.
enum class LauncherKind : std::uint8_t {
  ours,       ///< TUTTI_RANK etc. or options: set for tutti only
  elastic,    ///< torchrun and torch.distributed.launch
  mpi,        ///< starts MPI programs, which get the same from MPI_Init
  by_hand,    ///< RANK and WORLD_SIZE, set by hand or a script
  scheduler,  ///< starts processes; whether MPI_Init finds the others depends on its options
};

/// The variables of one launcher. The first one set in each list is used; an empty list: none.
struct Launcher {
  std::string_view name;
  LauncherKind kind;
  std::vector<std::string_view> traces;  ///< if one of them is set, it has started this process
  std::vector<std::string_view> rank;
  std::vector<std::string_view> size;
  std::vector<std::string_view> local_rank;
  std::vector<std::string_view> local_size;
};

/// All known launchers by decreasing priority: the launcher that starts processes most directly
/// comes first, since a launcher may run within the job of another.
[[nodiscard]] std::span<const Launcher> known_launchers();

/// A variable or an option, and its text.
struct Setting {
  std::string name;
  std::string text;
  bool operator==(const Setting&) const = default;
};

/// One launcher's settings for this process, unparsed.
struct Claim {
  std::string launcher;
  LauncherKind kind = LauncherKind::by_hand;
  std::optional<Setting> rank;
  std::optional<Setting> size;
  std::optional<Setting> local_rank;
  std::optional<Setting> local_size;

  /// "Slurm (SLURM_PROCID=0 SLURM_NTASKS=1)".
  [[nodiscard]] std::string text() const;
};

/// The claims of all launchers with a trace, in the order of known_launchers().
[[nodiscard]] std::vector<Claim> find_claims(const EnvironmentMap& environment);

/// Variables that only show that an MPI library would find other processes.
[[nodiscard]] std::span<const std::string_view> mpi_traces();

/// True if an MPI launcher started this process, so that MPI_Init will find other ranks (or, under
/// srun, may).
[[nodiscard]] bool started_by_mpi_launcher(const EnvironmentMap& environment);

}  // namespace tutti::launch
