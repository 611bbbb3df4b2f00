#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.hpp"

/// What launchers write into the environment. Pure functions of an environment map.
namespace tutti::launch {

/// What a launcher's claim is worth.
enum class Kind : std::uint8_t {
  ours,       ///< TUTTI_RANK and its like, or options: said for us alone
  elastic,    ///< torchrun and torch.distributed.launch
  mpi,        ///< it starts MPI programs, which get the same from MPI_Init
  by_hand,    ///< RANK and WORLD_SIZE, by hand or by a script
  scheduler,  ///< it starts processes; whether MPI_Init finds the others depends on how
};

/// The variables of one launcher. Each list has the first choice first; an empty list: none.
struct Launcher {
  std::string_view name;
  Kind kind;
  std::vector<std::string_view> traces;  ///< one of them is there: it has started this process
  std::vector<std::string_view> rank;
  std::vector<std::string_view> size;
  std::vector<std::string_view> local_rank;
  std::vector<std::string_view> local_size;
};

/// All launchers that are known, in the order in which they are believed: who starts processes
/// most directly comes first, since a launcher may run within the job of another.
[[nodiscard]] std::span<const Launcher> known_launchers();

/// A variable, or an option, and its text.
struct Setting {
  std::string name;
  std::string text;
  bool operator==(const Setting&) const = default;
};

/// What one launcher says of this process, as it stands there.
struct Claim {
  std::string launcher;
  Kind kind = Kind::by_hand;
  std::optional<Setting> rank;
  std::optional<Setting> size;
  std::optional<Setting> local_rank;
  std::optional<Setting> local_size;

  /// "Slurm (SLURM_PROCID=0 SLURM_NTASKS=1)"
  [[nodiscard]] std::string text() const;
};

/// The claims of all launchers that have left a trace, in the order of known_launchers().
[[nodiscard]] std::vector<Claim> find_claims(const EnvironmentMap& environment);

/// Variables that only say that an MPI library would find other processes.
[[nodiscard]] std::span<const std::string_view> mpi_traces();

/// True if an MPI launcher started this process, so that MPI_Init will find other ranks (or, under
/// srun, may).
[[nodiscard]] bool started_by_mpi_launcher(const EnvironmentMap& environment);

}  // namespace tutti::launch
