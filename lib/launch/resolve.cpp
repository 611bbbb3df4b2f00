#include "launch/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "launch/nesting.hpp"
#include "tutti/error.hpp"

namespace tutti::launch {
namespace {

constexpr int max_ranks = 1 << 24;

[[noreturn]] void fail(const std::string& sentence) {
  throw Error(ErrorCode::usage, sentence);
}

std::string shown(const Setting& setting) {
  return setting.name + "=" + setting.text;
}

std::optional<int> number_in(std::string_view text) {
  int number = -1;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 0 || number > max_ranks) {
    return std::nullopt;
  }
  return number;
}

int size_in(const Setting& setting) {
  const auto number = number_in(setting.text);
  if (!number || *number == 0) {
    fail(
        fmt::format("{} is not a valid number of ranks: set an integer from 1 up, or unset it if "
                    "it is left over from another job",
                    shown(setting)));
  }
  return *number;
}

std::optional<Setting> of_map(const EnvironmentMap& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return Setting{found->first, found->second};
}

std::optional<Setting> said_init(const EnvironmentMap& environment, const Words& words) {
  if (!words.init.empty()) return Setting{"--init", words.init};
  return of_map(environment, "TUTTI_INIT");
}

/// Options count like TUTTI_RANK and TUTTI_SIZE.
std::vector<Claim> all_claims(const EnvironmentMap& environment, const Words& words) {
  auto claims = find_claims(environment);
  if (words.rank.empty() && words.size.empty()) return claims;
  if (claims.empty() || claims.front().kind != LauncherKind::ours) {
    claims.insert(claims.begin(), Claim{.launcher = {}, .kind = LauncherKind::ours});
  }
  auto& ours = claims.front();
  ours.launcher = "options";
  if (!words.rank.empty()) ours.rank = Setting{"--rank", words.rank};
  if (!words.size.empty()) ours.size = Setting{"--ranks", words.size};
  return claims;
}

const Claim* first_of(const std::vector<Claim>& claims, LauncherKind kind) {
  const auto found = std::find_if(claims.begin(), claims.end(),
                                  [&](const Claim& claim) { return claim.kind == kind; });
  return found == claims.end() ? nullptr : &*found;
}

/// RANK and WORLD_SIZE set by hand may repeat the MPI launcher's values but not contradict them.
void require_same(const Claim& by_hand, const Claim& launcher) {
  const auto compare = [&](const std::optional<Setting>& a, const std::optional<Setting>& b,
                           int (*number)(const Setting&)) {
    if (!a || !b || number(*a) == number(*b)) return;
    fail(
        fmt::format("{}, but {} sets {}: unset {} and related variables, or use --init env:// "
                    "(TUTTI_INIT=env://) if they are intended",
                    shown(*a), launcher.launcher, shown(*b), a->name));
  };
  compare(by_hand.size, launcher.size, size_in);
  compare(by_hand.rank, launcher.rank, rank_in);
}

/// Ambiguous: a job of torchrun's ranks or of the MPI launcher's. Ranks of two mpiruns must never
/// form one job.
void require_one_of_them(const EnvironmentMap& environment, const std::vector<Claim>& claims) {
  const auto* const rival = ambiguous_mpi_launcher(environment, claims);
  if (rival == nullptr) return;
  const auto* const torchrun = first_of(claims, LauncherKind::elastic);
  fail(
      fmt::format("{} and {} both set the rank of this process, and either may have started the "
                  "other: use --init mpi (TUTTI_INIT=mpi) for the ranks of {}, or --init env:// "
                  "(TUTTI_INIT=env://) for those of torchrun",
                  torchrun->text(), rival->text(), rival->launcher));
}

/// Slurm sets SLURM_PROCID=0 in the batch script too, and SLURM_NTASKS to the job's request.
void require_step(const EnvironmentMap& environment, const Claim& claim) {
  if (claim.kind != LauncherKind::scheduler || !is_outside_step(environment)) return;
  if (!claim.size || size_in(*claim.size) == 1) return;
  fail(fmt::format(
      "{}, but srun has not started this process (SLURM_STEP_ID is not set), as in the "
      "batch script itself: start it by srun, or, for one rank, with SLURM_PROCID unset "
      "(env -u SLURM_PROCID)",
      shown(*claim.size)));
}

/// The chosen claim first, then the others. If an MPI launcher has started this process, RANK and
/// WORLD_SIZE were set by hand and count only on request.
void put_first(std::vector<Claim>& claims, bool is_explicit) {
  if (claims.empty() || claims.front().kind == LauncherKind::ours ||
      claims.front().kind == LauncherKind::elastic) {
    return;
  }
  const auto by_hand = std::find_if(claims.begin(), claims.end(), [](const Claim& claim) {
    return claim.kind == LauncherKind::by_hand;
  });
  if (by_hand == claims.end()) return;
  const auto* const launcher = first_of(claims, LauncherKind::mpi);
  if (is_explicit) {
    std::rotate(claims.begin(), by_hand, by_hand + 1);
  } else if (launcher != nullptr) {
    require_same(*by_hand, *launcher);
    std::rotate(by_hand, by_hand + 1, claims.end());
  }
}

void require_local_rank(const Claim& claim, const Words& words, Resolved& resolved) {
  auto local_rank = claim.local_rank;
  if (!words.local_rank.empty()) {
    const Setting word{"--local-rank", words.local_rank};
    if (local_rank && rank_in(*local_rank) != rank_in(word)) {
      fail(fmt::format("{}, but {} on the command line: unset the one that is wrong",
                       shown(*local_rank), shown(word)));
    }
    local_rank = word;
  }
  if (!local_rank && (claim.kind == LauncherKind::by_hand || claim.kind == LauncherKind::elastic)) {
    fail(
        fmt::format("{} is set, but LOCAL_RANK is not: set it to this process's index among "
                    "those of its host, from 0 up",
                    shown(*claim.rank)));
  }
  if (local_rank) resolved.local_rank = rank_in(*local_rank);
  if (claim.local_size) {
    resolved.local_size = size_in(*claim.local_size);
    if (resolved.local_rank && *resolved.local_rank >= *resolved.local_size) {
      fail(fmt::format("{} is out of range with {}: local ranks are 0 to {}", shown(*local_rank),
                       shown(*claim.local_size), *resolved.local_size - 1));
    }
    if (*resolved.local_size > resolved.size) {
      fail(fmt::format(
          "{}, but {}: a host can't have more ranks than the job", shown(*claim.local_size),
          claim.size ? shown(*claim.size) : fmt::format("the job has {}", resolved.size)));
    }
  }
}

/// Claims equal to the chosen one are not reported as shadowed.
void shadow(const Claim& claim, Resolved& resolved) {
  const auto same = [](const std::optional<Setting>& setting, int number) {
    return !setting || number_in(setting->text) == number;
  };
  if (same(claim.rank, resolved.rank) && same(claim.size, resolved.size)) return;
  resolved.shadowed.push_back(claim);
}

/// Names of the variables that belong together, for messages.
const char* sibling(LauncherKind kind, bool rank) {
  switch (kind) {
    case LauncherKind::ours:
      return rank ? "TUTTI_RANK (--rank)" : "TUTTI_SIZE (--ranks)";
    case LauncherKind::by_hand:
    case LauncherKind::elastic:
      return rank ? "RANK" : "WORLD_SIZE";
    default:
      return rank ? "the rank" : "the number of ranks";
  }
}

}  // namespace

int rank_in(const Setting& setting) {
  const auto number = number_in(setting.text);
  if (!number || *number == max_ranks) {
    fail(
        fmt::format("{} is not a valid rank: set an integer from 0 up, or unset it if it is left "
                    "over from another job",
                    shown(setting)));
  }
  return *number;
}

std::string Resolved::text() const {
  return (chosen ? chosen->text() : std::string("no launcher")) + shadow_text();
}

std::string Resolved::shadow_text() const {
  std::string result;
  for (const auto& claim : shadowed) {
    result +=
        fmt::format("{} {}", &claim == shadowed.data() ? ", overrides" : " and", claim.text());
  }
  return result;
}

InitChoice choose_init(const EnvironmentMap& environment, const Words& words) {
  if (const auto said = said_init(environment, words)) {
    InitChoice choice{.is_explicit = true, .source = shown(*said)};
    if (said->text == "mpi") {
      choice.init = Init::mpi;
    } else if (said->text == "env://" || said->text.starts_with("tcp://")) {
      choice.init = Init::store;
      choice.url = said->text;
    } else {
      fail(fmt::format("{} is unknown: use mpi, env:// or tcp://HOST:PORT", shown(*said)));
    }
    return choice;
  }
  const auto claims = all_claims(environment, words);
  InitChoice store{.init = Init::store, .url = "env://"};
  if (claims.empty()) {
    return {.init = started_by_mpi_launcher(environment) ? Init::mpi : Init::alone};
  }
  const auto kind = claims.front().kind;
  if (kind == LauncherKind::elastic) require_one_of_them(environment, claims);
  if (kind == LauncherKind::ours || kind == LauncherKind::elastic) return store;
  if (started_by_mpi_launcher(environment)) return {.init = Init::mpi};
  if (kind == LauncherKind::by_hand) return store;
  // Slurm without any trace of a PMI.
  const auto& size = claims.front().size;
  if (!size || size_in(*size) == 1) return {.init = Init::alone};
  require_step(environment, claims.front());
  if (of_map(environment, "MASTER_ADDR")) return store;
  fail(
      fmt::format("{}, but MPI would find 1 rank: srun has started this process without PMI; use "
                  "srun --mpi=pmix (or --mpi=pmi2), or set MASTER_ADDR and MASTER_PORT for a job "
                  "without MPI",
                  shown(*size)));
}

Resolved resolve(const EnvironmentMap& environment, const Words& words, const InitChoice& choice) {
  auto claims = all_claims(environment, words);
  put_first(claims, choice.is_explicit);
  Resolved result;
  if (claims.empty()) return result;
  const auto& chosen = claims.front();
  if (chosen.kind == LauncherKind::elastic && !choice.is_explicit)
    require_one_of_them(environment, claims);
  require_step(environment, chosen);
  if (chosen.rank && !chosen.size) {
    (void)rank_in(*chosen.rank);
    fail(fmt::format("{} is set, but {} is not: set both, or --rank and --ranks",
                     shown(*chosen.rank), sibling(chosen.kind, false)));
  }
  if (chosen.size && !chosen.rank) {
    (void)size_in(*chosen.size);
    fail(fmt::format("{} is set, but {} is not: set both, or unset it if it is left over",
                     shown(*chosen.size), sibling(chosen.kind, true)));
  }
  if (!chosen.rank) fail(fmt::format("{} sets no rank: pass --rank and --ranks", chosen.text()));
  result.rank = rank_in(*chosen.rank);
  result.size = size_in(*chosen.size);
  if (result.rank >= result.size) {
    fail(fmt::format("{} is out of range with {}: ranks are 0 to {}", shown(*chosen.rank),
                     shown(*chosen.size), result.size - 1));
  }
  require_local_rank(chosen, words, result);
  result.chosen = chosen;
  for (std::size_t i = 1; i < claims.size(); ++i) shadow(claims[i], result);
  return result;
}

namespace {

void require_world(const EnvironmentMap& environment, const Claim& claim, const World& world) {
  const auto remedy = [&]() -> std::string {
    if (claim.kind == LauncherKind::scheduler && is_outside_step(environment)) {
      return "srun has not started this process (SLURM_STEP_ID is not set), as in the batch script "
             "itself; start it by srun (srun --mpi=pmix or --mpi=pmi2) or by mpirun, or, for one "
             "rank, with this variable unset";
    }
    if (claim.kind == LauncherKind::elastic && started_by_mpi_launcher(environment)) {
      return "use --init mpi (TUTTI_INIT=mpi) for the ranks of MPI, or --init env:// for "
             "those of torchrun";
    }
    if (claim.kind == LauncherKind::scheduler || claim.kind == LauncherKind::mpi) {
      return fmt::format(
          "the launcher does not support this MPI; start it with the launcher of its own "
          "MPI (under Slurm: srun --mpi=pmix or --mpi=pmi2), or use --init env://");
    }
    return "unset it if it is left over from another job, or use --init env:// if it is intended";
  };
  if (claim.size && size_in(*claim.size) != world.size) {
    fail(fmt::format("{}, but MPI ({}) has {}: {}", shown(*claim.size), world.mpi,
                     world.size == 1 ? std::string("1 rank") : fmt::format("{} ranks", world.size),
                     remedy()));
  }
  if (claim.rank && rank_in(*claim.rank) != world.rank) {
    fail(fmt::format("{}, but MPI ({}) has this process as rank {} of {}: {}", shown(*claim.rank),
                     world.mpi, world.rank, world.size, remedy()));
  }
}

}  // namespace

Resolved require_agreement(const EnvironmentMap& environment, const Words& words,
                           const World& world) {
  const auto claims = all_claims(environment, words);
  const auto* const mpi = first_of(claims, LauncherKind::mpi);
  // mpirun within a job of Slurm may start any number of ranks.
  const bool slurm_is_farther_away = started_by_mpi_launcher(environment) &&
                                     of_map(environment, "SLURM_JOB_ID") && mpi != nullptr &&
                                     !is_slurm_pmi(environment, *mpi);
  const auto said = said_init(environment, words);
  const bool chose_mpi = said && said->text == "mpi";
  Resolved result{.rank = world.rank, .size = world.size};
  for (const auto& claim : claims) {
    const bool farther_away = claim.kind == LauncherKind::scheduler ? slurm_is_farther_away
                              : claim.kind == LauncherKind::mpi     ? &claim != mpi
                              : claim.kind == LauncherKind::elastic ? mpi != nullptr && chose_mpi
                                                                    : false;
    if (farther_away) {
      shadow(claim, result);
      continue;
    }
    require_world(environment, claim, world);
    if (!result.chosen) result.chosen = claim;
  }
  // SLURM_NTASKS without a task id: a shell of salloc, or a leftover of one.
  const auto tasks = of_map(environment, "SLURM_NTASKS");
  if (first_of(claims, LauncherKind::scheduler) == nullptr && !slurm_is_farther_away && tasks) {
    require_world(environment,
                  Claim{.launcher = "Slurm", .kind = LauncherKind::scheduler, .size = tasks},
                  world);
  }
  if (result.chosen && !words.local_rank.empty()) {
    require_local_rank(*result.chosen, words, result);
  }
  return result;
}

std::optional<int> claimed_rank(const EnvironmentMap& environment, const Words& words) {
  const auto claims = all_claims(environment, words);
  const auto said = said_init(environment, words);
  const bool chose_mpi =
      said && said->text == "mpi" && first_of(claims, LauncherKind::mpi) != nullptr;
  for (const auto& claim : claims) {
    if (claim.kind == LauncherKind::elastic && chose_mpi) continue;
    if (!claim.rank) continue;
    const auto rank = number_in(claim.rank->text);
    // The process that is rank 0 of both reports the conflict.
    const auto* const rival = claim.kind == LauncherKind::elastic && !said
                                  ? ambiguous_mpi_launcher(environment, claims)
                                  : nullptr;
    const auto other = rival != nullptr && rival->rank ? number_in(rival->rank->text) : rank;
    return rank && other ? std::max(*rank, *other) : rank;
  }
  return std::nullopt;
}

bool flag(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty() || found->second == "0") return false;
  if (found->second == "1") return true;
  fail(fmt::format("{}={} is unusable: set 0 or 1", name, found->second));
}

}  // namespace tutti::launch
