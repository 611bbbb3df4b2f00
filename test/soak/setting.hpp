#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/fork_ranks.hpp"

/// What surrounds a run: which way data takes, how many hosts the ranks are on, what else runs.
namespace tutti::soak {

/// What the caller fixes; the rest follows from a run's seed.
struct Wanted {
  std::optional<bool> shared_memory;
  std::optional<int> hosts;
  std::optional<int> load;
};

struct Setting {
  std::uint64_t seed = 0;
  bool shared_memory = true;  ///< among the ranks of a host; else TCP
  std::vector<int> host_of;   ///< of each rank
  int load = 0;               ///< processes that use the cores beside the job

  /// A job of `size` ranks. The same for the same seed and wishes on every machine, but for the
  /// load, which goes up to twice the cores.
  static Setting draw(std::uint64_t seed, int size, const Wanted& wanted);

  [[nodiscard]] int hosts() const;
  /// A line of the table, such as "TCP, 2 hosts, loaded".
  [[nodiscard]] std::string kind() const;
  /// The options that fix what was drawn.
  [[nodiscard]] std::string options() const;
  /// The host of each rank, such as "0 1 1".
  [[nodiscard]] std::string hosts_text() const;
  /// In a rank, before its communicator.
  void enter(const test::Rank& rank) const;
};

/// Child processes that use CPU for random spans with random pauses, until it is destroyed.
class Load {
 public:
  Load(int processes, std::uint64_t seed);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load();

 private:
  std::vector<pid_t> children_;
};

/// Without the rights that hosts of their own take: says so, and fixes one host.
void allow_hosts(Wanted& wanted);

}  // namespace tutti::soak
