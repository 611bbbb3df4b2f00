#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/launcher.hpp"

/// Which rank of which size is this process? Pure functions; every contradiction is an
/// Error{usage} that shows both values.
namespace tutti::launch {

/// Options that say the same as variables, as they were typed; empty: not given.
struct Words {
  std::string init;
  std::string rank;
  std::string size;
  std::string local_rank;  ///< torch.distributed.launch adds it
};

/// Throws Error{usage} that names the variable and its value.
[[nodiscard]] int rank_in(const Setting& setting);

/// How the ranks meet.
enum class Init : std::uint8_t {
  alone,  ///< one process
  mpi,    ///< MPI_Init finds the others
  store,  ///< at a store that rank 0 serves: env:// or tcp://HOST:PORT
};

struct InitChoice {
  Init init = Init::alone;
  std::string url;       ///< "env://" or "tcp://HOST:PORT" for Init::store
  bool said_so = false;  ///< by an option or TUTTI_INIT, not found out
  std::string source;    ///< what said so
};

/// By --init or TUTTI_INIT; else by what has started the process: MPI where an MPI launcher did,
/// env:// where torchrun or RANK and WORLD_SIZE did, else alone. Throws Error{usage}.
[[nodiscard]] InitChoice choose_init(const EnvironmentMap& environment, const Words& words);

/// Who this process is by what was chosen.
struct Resolved {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<Claim> chosen;  ///< nothing: nobody says anything, so rank 0 of 1
  std::vector<Claim> shadowed;  ///< says something too, which is not used

  /// "torchrun (RANK=3 WORLD_SIZE=4 LOCAL_RANK=1), shadows Slurm (SLURM_PROCID=0 …)"
  [[nodiscard]] std::string text() const;
  /// ", shadows Slurm (SLURM_PROCID=0 …)"; empty where there is nothing else.
  [[nodiscard]] std::string shadow_text() const;
};

/// For jobs without MPI. Throws Error{usage} that names the variable, its value and the remedy.
[[nodiscard]] Resolved resolve(const EnvironmentMap& environment, const Words& words,
                               const InitChoice& choice);

/// What MPI says of MPI_COMM_WORLD.
struct World {
  int rank = 0;
  int size = 1;
  std::string mpi;  ///< "Open MPI v4.1.4"
};

/// MPI is the truth wherever it runs: throws Error{usage} with both values where what has started
/// this process, or RANK and WORLD_SIZE by hand, say something else. What a launcher farther away
/// says (Slurm, where mpirun runs in its job) is shadowed. Returns what the launchers said.
Resolved require_agreement(const EnvironmentMap& environment, const Words& words,
                           const World& world);

/// The rank that the most direct source names, for deciding who prints; nothing where none does.
[[nodiscard]] std::optional<int> claimed_rank(const EnvironmentMap& environment,
                                              const Words& words);

/// TUTTI_INSECURE and the like: "0" or "1". Throws Error{usage}.
[[nodiscard]] bool flag(const EnvironmentMap& environment, std::string_view name);

}  // namespace tutti::launch
