// Location of a device, in a fake host of two NUMA nodes with one GPU each.
#include "device/locality.hpp"

#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

#ifdef TUTTI_HAS_HWLOC
const std::string two_nodes = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
 <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
  <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1073741824"/>
  <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4">
   <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
  </object>
  <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6">
   <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
  </object>
  <object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0000:[00-1f]">
   <object type="PCIDev" gp_index="9" pci_busid="0000:18:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="0.0"/>
  </object>
 </object>
 <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="10">
  <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="11" local_memory="1073741824"/>
  <object type="Core" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="12">
   <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="13"/>
  </object>
  <object type="Core" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="14">
   <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="15"/>
  </object>
  <object type="Bridge" gp_index="16" bridge_type="0-1" depth="0" bridge_pci="0000:[80-9f]">
   <object type="PCIDev" gp_index="17" pci_busid="0000:9a:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="0.0"/>
  </object>
 </object>
</object>
</topology>
)";
#endif

}  // namespace

#ifdef TUTTI_HAS_HWLOC
TEST_CASE("the NUMA node of a GPU, and whether the process is bound far from it") {
  const auto first = device_locality("0000:18:00.0", two_nodes, "0-3");
  INFO(first.unknown_because);
  CHECK(first.unknown_because.empty());
  CHECK(first.numa_node == 0);
  CHECK(!first.far_from_cpus);
  const auto second = device_locality("0000:9a:00.0", two_nodes, "0-1");
  CHECK(second.numa_node == 1);
  CHECK(second.far_from_cpus);
  CHECK(!device_locality("0000:9a:00.0", two_nodes, "1,3").far_from_cpus);
}

TEST_CASE("a GPU that the topology lacks, and an invalid topology") {
  CHECK(device_locality("0000:77:00.0", two_nodes, "0").unknown_because.find("0000:77:00.0") !=
        std::string::npos);
  CHECK(!device_locality("0000:18:00.0", "nonsense", "0").unknown_because.empty());
  CHECK(!device_locality("no bus id", two_nodes, "0").unknown_because.empty());
}
#endif

TEST_CASE("of this host: an answer or a reason") {
  const auto here = device_locality("0000:77:00.0");
  CHECK((here.numa_node >= 0 || !here.unknown_because.empty()));
}

}  // namespace tutti::device::test
