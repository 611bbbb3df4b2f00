#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hostfile/hostfile.hpp"

/// Where mpirun would put the ranks of a job: a dry run, a pure function.
namespace tutti::hostfile {

struct MapBy {
  enum class Kind : std::uint8_t {
    slot,  ///< fill a host's slots before the next host begins
    node,  ///< deal ranks out to the hosts in turn
    ppr,   ///< so many ranks on each host
  };
  Kind kind = Kind::slot;
  int per_host = 0;  ///< of ppr
  std::string text = "slot";
};

/// "slot", "node", "ppr:2:node". Throws Error{usage}.
[[nodiscard]] MapBy parse_map_by(std::string_view text);

/// Whose placement rules: they differ.
enum class Rules : std::uint8_t {
  open_mpi_5,  ///< hosts in the order of the file; MPICH does so too
  open_mpi_4,  ///< the host that mpirun runs on first; by node, another share of what is left over
};

/// "openmpi5", "openmpi4", "mpich". Throws Error{usage}.
[[nodiscard]] Rules parse_rules(std::string_view text);

/// What a Resolver gives for the host that all this runs on.
inline constexpr const char* this_machine = "this machine";

/// Returns keys of a host, such as its addresses: names with a common key are the same host. Empty:
/// unknown.
using Resolver = std::function<std::vector<std::string>(const std::string& host)>;

struct PlannedRank {
  int rank;
  std::size_t entry;  ///< index into the hosts
  int local_rank;     ///< over all names of the host
};

struct Placement {
  struct Host {
    HostEntry entry;
    int slots;          ///< with the assumption for bare hosts
    std::size_t alias;  ///< index of the first host that is the same; its own where there is none
  };
  std::vector<Host> hosts;
  std::vector<PlannedRank> ranks;
  int host_count = 0;              ///< that have ranks, aliases counted once
  std::vector<std::string> notes;  ///< what was assumed, and which names are one host
};

struct PlacementRequest {
  int ranks = 0;  ///< 0: as many as there are slots, or as ppr gives
  MapBy map_by;
  Rules rules = Rules::open_mpi_5;
  int cores = 1;             ///< taken for the slots of a host that is bare
  std::string cores_source;  ///< "this machine's; give --cores N where hosts differ"
};

/// Throws Error{usage} where slots are missing: "file: need 4, have 3 (a: 2, b: 1): …".
[[nodiscard]] Placement place_ranks(const std::vector<HostEntry>& hosts, const std::string& file,
                                    const PlacementRequest& request, const Resolver& resolve);

/// Whether each rank goes to the same host, of the same hostfile.
[[nodiscard]] bool same_places(const Placement& one, const Placement& other);

}  // namespace tutti::hostfile
