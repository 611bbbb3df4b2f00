#pragma once

#include <string>

namespace tutti::device {

/// The location of a device in its host, as this process sees it.
struct Locality {
  int numa_node = -1;           ///< OS index of the nearest NUMA node
  bool far_from_cpus = false;   ///< the process may not run on any core of that node
  std::string unknown_because;  ///< empty if the fields above are known
};

/// Loads the host's topology with its devices, which takes milliseconds: on demand only. `bus_id`:
/// "0000:18:00.0".
[[nodiscard]] Locality device_locality(const std::string& bus_id);

/// For tests: from a topology written by hwloc (lstopo --of xml), for a process bound to these
/// cores ("0-3,8").
[[nodiscard]] Locality device_locality(const std::string& bus_id, const std::string& topology_xml,
                                       const std::string& cores);

}  // namespace tutti::device
