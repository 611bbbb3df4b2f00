#include "device/locality.hpp"

#include <fmt/format.h>

#ifdef TUTTI_HAS_HWLOC
#include <hwloc.h>

#include <memory>

namespace tutti::device {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;
using Cores = std::unique_ptr<hwloc_bitmap_s, Destroy>;

Locality unknown(std::string reason) {
  return {.unknown_because = std::move(reason)};
}

/// Null on failure. An empty `xml` means this host.
Topology load(const std::string& xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (!xml.empty() &&
      hwloc_topology_set_xmlbuffer(raw, xml.c_str(), static_cast<int>(xml.size() + 1)) != 0) {
    return nullptr;
  }
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

Locality find(hwloc_topology_t topology, const std::string& bus_id, hwloc_const_cpuset_t bound) {
  auto* const device = hwloc_get_pcidev_by_busidstring(topology, bus_id.c_str());
  if (device == nullptr) return unknown("the host's topology does not show " + bus_id);
  auto* const beside = hwloc_get_non_io_ancestor_obj(topology, device);
  const int node = hwloc_bitmap_first(beside->nodeset);
  if (node < 0) return unknown("the host's topology shows no memory beside " + bus_id);
  const bool near = hwloc_bitmap_iszero(beside->cpuset) != 0 ||
                    hwloc_bitmap_intersects(beside->cpuset, bound) != 0;
  return {.numa_node = node, .far_from_cpus = !near};
}

}  // namespace

Locality device_locality(const std::string& bus_id) {
  const auto topology = load({});
  const Cores bound(hwloc_bitmap_alloc());
  if (!topology || !bound) return unknown("hwloc can't read the host's topology");
  if (hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    return unknown("hwloc can't read where the process may run");
  }
  return find(topology.get(), bus_id, bound.get());
}

Locality device_locality(const std::string& bus_id, const std::string& topology_xml,
                         const std::string& cores) {
  const auto topology = load(topology_xml);
  const Cores bound(hwloc_bitmap_alloc());
  if (!topology || !bound || hwloc_bitmap_list_sscanf(bound.get(), cores.c_str()) != 0) {
    return unknown("hwloc can't read that topology");
  }
  return find(topology.get(), bus_id, bound.get());
}

}  // namespace tutti::device
#else

namespace tutti::device {

Locality device_locality(const std::string& bus_id) {
  return {.unknown_because = fmt::format("this tutti was built without hwloc, which knows where {} "
                                         "lies",
                                         bus_id)};
}

Locality device_locality(const std::string& bus_id, const std::string&, const std::string&) {
  return device_locality(bus_id);
}

}  // namespace tutti::device
#endif
