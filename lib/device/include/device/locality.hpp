#pragma once

#include <string>

namespace tutti::device {

/// Where a device lies in its host, as seen by this process.
struct Locality {
  int numa_node = -1;           ///< the operating system's number of the node next to it
  bool far_from_cpus = false;   ///< the process may run on no core of that node
  std::string unknown_because;  ///< empty where the above is known
};

/// Loads the host's topology with its devices, which takes some ms: for those who ask, not for
/// every start. `bus_id`: "0000:18:00.0".
[[nodiscard]] Locality device_locality(const std::string& bus_id);

/// The same from a topology that hwloc has written (lstopo --of xml), for a process that may run on
/// these cores ("0-3,8"): for tests.
[[nodiscard]] Locality device_locality(const std::string& bus_id, const std::string& topology_xml,
                                       const std::string& cores);

}  // namespace tutti::device
