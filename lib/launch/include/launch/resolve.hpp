#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/launcher.hpp"

/// Rank and size of this process. Pure functions; every contradiction is an Error{usage} with both
/// values.
namespace tutti::launch {

/// Options equivalent to variables, unparsed; empty: not given.
struct Words {
  std::string init;
  std::string rank;
  std::string size;
  std::string local_rank;  ///< added by torch.distributed.launch
};

/// Parses a rank. Throws Error{usage} that names the variable and its value.
[[nodiscard]] int rank_in(const Setting& setting);

/// How the ranks bootstrap.
enum class Init : std::uint8_t {
  alone,  ///< one process
  mpi,    ///< through MPI
  store,  ///< through a store at rank 0: env:// or tcp://HOST:PORT
};

struct InitChoice {
  Init init = Init::alone;
  std::string url;           ///< "env://" or "tcp://HOST:PORT" for Init::store
  bool is_explicit = false;  ///< set by an option or TUTTI_INIT, not detected
  std::string source;        ///< the option, variable or launcher that it comes from
};

/// From --init or TUTTI_INIT; else from the launcher: MPI for an MPI launcher, env:// for torchrun
/// or RANK and WORLD_SIZE, else alone. Throws Error{usage}.
[[nodiscard]] InitChoice choose_init(const EnvironmentMap& environment, const Words& words);

/// Rank and size from the chosen source.
struct Resolved {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<Claim> chosen;  ///< empty: no source, so rank 0 of 1
  std::vector<Claim> shadowed;  ///< other claims, not used

  /// "torchrun (RANK=3 WORLD_SIZE=4 LOCAL_RANK=1), overrides Slurm (SLURM_PROCID=0 …)"
  [[nodiscard]] std::string text() const;
  /// ", overrides Slurm (SLURM_PROCID=0 …)"; empty if nothing is shadowed.
  [[nodiscard]] std::string shadow_text() const;
};

/// For jobs without MPI. Throws Error{usage} that names the variable, its value and the remedy.
[[nodiscard]] Resolved resolve(const EnvironmentMap& environment, const Words& words,
                               const InitChoice& choice);

/// This process in MPI_COMM_WORLD.
struct World {
  int rank = 0;
  int size = 1;
  std::string mpi;  ///< "Open MPI v4.1.4"
};

/// MPI takes precedence: throws Error{usage} with both values if the launcher of this process, or
/// RANK and WORLD_SIZE set by hand, contradict it. Outer launchers (Slurm around mpirun) are
/// shadowed. Returns the launchers' claims.
Resolved require_agreement(const EnvironmentMap& environment, const Words& words,
                           const World& world);

/// The rank of the most direct source, to decide which process prints; empty if there is none.
[[nodiscard]] std::optional<int> claimed_rank(const EnvironmentMap& environment,
                                              const Words& words);

/// Parses a flag such as TUTTI_INSECURE: "0" or "1". Throws Error{usage}.
[[nodiscard]] bool flag(const EnvironmentMap& environment, std::string_view name);

}  // namespace tutti::launch
