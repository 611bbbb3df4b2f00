#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/fork_ranks.hpp"

/// Conditions of a run: the transport, the number of hosts, the load.
namespace tutti::soak {

/// Conditions that the caller fixes. The seed determines the others.
struct Wanted {
  std::optional<bool> shared_memory;
  std::optional<int> hosts;
  std::optional<int> load;
};

struct Setting {
  std::uint64_t seed = 0;
  bool shared_memory = true;  ///< between ranks of a host; false: TCP
  std::vector<int> host_of;   ///< host of each rank
  int load = 0;               ///< processes that use CPU besides the job

  /// Conditions of a job of `size` ranks. The same for the same arguments on every machine, except
  /// the load, which is up to twice the number of cores.
  static Setting draw(std::uint64_t seed, int size, const Wanted& wanted);

  [[nodiscard]] int hosts() const;
  /// The row of the table: "TCP, 2 hosts, loaded".
  [[nodiscard]] std::string kind() const;
  /// The options that repeat these conditions.
  [[nodiscard]] std::string options() const;
  /// The host of each rank: "0 1 1".
  [[nodiscard]] std::string hosts_text() const;
  /// Call it in a rank, before its communicator.
  void enter(const test::Rank& rank) const;
};

/// Child processes that use CPU for random times with random pauses, until the destructor.
class Load {
 public:
  Load(int processes, std::uint64_t seed);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load();

 private:
  std::vector<pid_t> children_;
};

/// Without the capabilities to simulate hosts: prints this and fixes one host.
void allow_hosts(Wanted& wanted);

}  // namespace tutti::soak
