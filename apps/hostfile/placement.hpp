#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hostfile/hostfile.hpp"

/// Computes where mpirun would place the ranks of a job. A pure function; starts nothing.
namespace tutti::hostfile {

struct MapBy {
  enum class Kind : std::uint8_t {
    slot,  ///< fill a host's slots before the next host
    node,  ///< assign ranks to the hosts round-robin
    ppr,   ///< N ranks per host
  };
  Kind kind = Kind::slot;
  int per_host = 0;  ///< N of ppr:N:node
  std::string text = "slot";
};

/// Parses "slot", "node" or "ppr:2:node". Throws Error{usage}.
[[nodiscard]] MapBy parse_map_by(std::string_view text);

/// Launchers whose placement rules differ.
enum class Rules : std::uint8_t {
  open_mpi_5,  ///< hosts in the order of the file; MPICH's rules too
  open_mpi_4,  ///< mpirun's own host first; by node, remainders are distributed differently
};

/// Parses "openmpi5", "openmpi4" or "mpich". Throws Error{usage}.
[[nodiscard]] Rules parse_rules(std::string_view text);

/// The key that a Resolver returns for this machine.
inline constexpr const char* this_machine = "this machine";

/// Returns keys of a host, such as its addresses. Names with a common key are the same host. Empty:
/// unknown.
using Resolver = std::function<std::vector<std::string>(const std::string& host)>;

struct PlannedRank {
  int rank;
  std::size_t entry;  ///< index into the hosts
  int local_rank;     ///< on the host, counted over all its names
};

struct Placement {
  struct Host {
    HostEntry entry;
    int slots;          ///< including the assumption for hosts without slots
    std::size_t alias;  ///< index of the first entry for the same host, or its own index
  };
  std::vector<Host> hosts;
  std::vector<PlannedRank> ranks;
  int host_count = 0;              ///< hosts with ranks, aliases counted once
  std::vector<std::string> notes;  ///< assumptions, and names of the same host
};

struct PlacementRequest {
  int ranks = 0;  ///< 0: all slots, or the number that ppr gives
  MapBy map_by;
  Rules rules = Rules::open_mpi_5;
  int cores = 1;             ///< assumed slots of a host that is listed once without slots
  std::string cores_source;  ///< for the note: "this machine's; give --cores N where hosts differ"
};

/// Throws Error{usage} if there are too few slots: "file: need 4, have 3 (a: 2, b: 1): …".
[[nodiscard]] Placement place_ranks(const std::vector<HostEntry>& hosts, const std::string& file,
                                    const PlacementRequest& request, const Resolver& resolve);

/// Whether both placements of one hostfile put each rank on the same host.
[[nodiscard]] bool same_places(const Placement& one, const Placement& other);

}  // namespace tutti::hostfile
