#include "planted_faults.hpp"

#include "tutti/version.hpp"

namespace tutti::app::doctor::test {
namespace {

using rendezvous::SocketAddress;

SocketAddress at(const std::string& address, std::uint16_t port) {
  auto result = SocketAddress::parse(address).value();
  result.set_port(port);
  return result;
}

}  // namespace

Job healthy() {
  Job job;
  for (int rank = 0; rank < 4; ++rank) {
    const int host = rank / 2 + 1;
    Facts facts;
    facts.info.version = version_string;
    facts.info.settings = {{"TUTTI_CHUNK", "262144"}, {"TUTTI_EAGER", "16384"}};
    facts.info.host = {"identity " + std::to_string(host), "node" + std::to_string(host), "pids"};
    facts.info.pid = 100U + static_cast<std::uint32_t>(rank);
    facts.info.cores = 8;
    facts.info.open_files_limit = 1024;
    facts.info.open_files = 10;
    facts.info.devices = {{"uuid-" + std::to_string(rank), "H100", "0000:18:00.0", false}};
    facts.info.nccl_version = 22800;
    facts.info.addresses = {at("10.0.0." + std::to_string(host), 4000)};
    facts.links = {{"eth0", "10.0.0." + std::to_string(host), 24, 10000, 1500, true}};
    facts.own_name_addresses = {"10.0.0." + std::to_string(host)};
    facts.shared_memory = std::int64_t{1} << 30;
    for (int cpu = 0; cpu < 8; ++cpu) facts.cpus.push_back(cpu);
    facts.machine_cpus = 8;
    facts.driver_version = "12.4";
    facts.device_is_far = {false};
    facts.settings = {{"NCCL_DEBUG", "WARN"}};
    facts.clock_ns = 1'000'000'000'000 + rank * 1'000'000;
    if (rank % 2 == 0) {
      facts.reached = {
          {rank == 0 ? 1 : 0, "10.0.0." + std::to_string(3 - host) + ":4000", "", true}};
    }
    job.push_back(std::move(facts));
  }
  return job;
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"a firewall",
       Severity::stops,
       "reachability",
       {"node1 can't connect to node2", "10.0.0.2:4000: no answer"},
       "TUTTI_PORT_RANGE",
       [](Job& job) { job[0].reached[0].failure = "no answer"; }},
      {"one way only",
       Severity::stops,
       "reachability",
       {"node2 can't connect to node1", "Connection refused"},
       "firewall",
       [](Job& job) { job[2].reached[0].failure = "Connection refused"; }},
      {"a network that should work",
       Severity::note,
       "reachability",
       {"192.168.9.2:4001", "although"},
       "^",
       [](Job& job) {
         job[0].reached.push_back({1, "192.168.9.2:4001", "no answer", true});
       }},
      {"a rank that can't listen",
       Severity::stops,
       "network",
       {"rank 3 (node2)", "exhausted"},
       "",
       [](Job& job) { job[3].info.failure = "TUTTI_PORT_RANGE=1-2 is exhausted"; }},
      {"a port that the kernel gives away",
       Severity::note,
       "ports",
       {"MASTER_PORT=40000", "node1"},
       "29500",
       [](Job& job) { job[0].unsafe_port = "MASTER_PORT=40000: port 40000 is one of many"; }},
      {"no common family",
       Severity::stops,
       "network",
       {"no address family in common"},
       "one family",
       [](Job& job) {
         for (const int rank : {2, 3})
           job[static_cast<std::size_t>(rank)].info.addresses = {at("fd00::2", 1)};
       }},
      {"a slow port",
       Severity::slows,
       "speed",
       {"eth0 of node2 runs at 100 Mbit/s", "10 Gbit/s"},
       "cable",
       [](Job& job) { job[2].links[0].speed_mbit = 100; }},
      {"a faster network",
       Severity::slows,
       "speed",
       {"node1 uses eth0", "ib0 (100 Gbit/s) is faster"},
       "TUTTI_SOCKET_IFNAME=ib0",
       [](Job& job) {
         job[0].links.push_back({"ib0", "10.1.0.1", 24, 100000, 1500, true});
       }},
      {"another MTU",
       Severity::slows,
       "mtu",
       {"node2 is 9000", "node1 1500"},
       "mtu 1500",
       [](Job& job) { job[2].links[0].mtu = 9000; }},
      {"large packets that get lost",
       Severity::stops,
       "mtu",
       {"packets of 1500 bytes from node2 to node1 (10.0.0.1:4000) are lost"},
       "ping -M do -s 1472 node1 on node2",
       [](Job& job) { job[2].reached[0].lost_packet_bytes = 1500; }},
      {"large packets that get lost on a network of second choice",
       Severity::note,
       "mtu",
       {"packets of 9000 bytes from node1 to node2 ([fd00::9]:4001) are lost"},
       "ping -M do -s 8952 node2 on node1",
       [](Job& job) {
         job[0].reached.push_back({1, "[fd00::9]:4001", "", true, 9000, true});
       }},
      {"127.0.1.1",
       Severity::note,
       "names",
       {"node2", "127.0.1.1"},
       "/etc/hosts",
       [](Job& job) {
         job[2].own_name_addresses = {"127.0.1.1", "10.0.0.2"};
       }},
      {"a host name that does not resolve",
       Severity::note,
       "names",
       {"node1", "does not resolve"},
       "/etc/hosts",
       [](Job& job) { job[0].own_name_failure = "Name or service not known"; }},
      {"RDMA",
       Severity::note,
       "rdma",
       {"node1", "mlx5_0"},
       "NCCL",
       [](Job& job) { job[0].rdma = {"mlx5_0"}; }},
      {"few descriptors",
       Severity::stops,
       "descriptors",
       {"rank 1 (node1) may open 16 files"},
       "ulimit -n",
       [](Job& job) { job[1].info.open_files_limit = 16; }},
      {"a small /dev/shm",
       Severity::stops,
       "shared memory",
       {"node2 has 1 MiB free in /dev/shm"},
       "--shm-size",
       [](Job& job) { job[2].shared_memory = 1 << 20; }},
      {"no /dev/shm and no GPU",
       Severity::note,
       "shared memory",
       {"node1 has no /dev/shm"},
       "--shm-size",
       [](Job& job) {
         job[0].shared_memory = -1;
         for (auto& facts : job) facts.info.devices.clear();
       }},
      {"little locked memory",
       Severity::slows,
       "locked memory",
       {"node2 may lock only 64 KiB"},
       "ulimit -l",
       [](Job& job) {
         job[2].locked_memory = 65536;
         job[2].rdma = {"mlx5_0"};
       }},
      {"single copy refused",
       Severity::note,
       "single copy",
       {"rank 2 (node2)", "Operation not permitted"},
       "ptrace_scope",
       [](Job& job) { job[2].single_copy_failure = "Operation not permitted"; }},
      {"two ranks on one core",
       Severity::slows,
       "binding",
       {"ranks 0, 1 of node1", "1 core (0)"},
       "--bind-to none",
       [](Job& job) { job[0].cpus = job[1].cpus = {0}; }},
      {"one core a rank",
       Severity::note,
       "binding",
       {"node1", "one core each"},
       "--bind-to none",
       [](Job& job) {
         job[0].cpus = {0};
         job[1].cpus = {1};
       }},
      {"more ranks than cores",
       Severity::note,
       "cores",
       {"node2 (2 ranks on 1 core)"},
       "fewer ranks",
       [](Job& job) {
         for (const std::size_t rank : {2U, 3U}) {
           job[rank].cpus = {0};
           job[rank].machine_cpus = 1;
         }
       }},
      {"a quota of processor time",
       Severity::slows,
       "quota",
       {"control group /pod of node2 allows 0.5 cores (cpu.max 50000 100000) to ranks 2, 3"},
       "limits.cpu",
       [](Job& job) {
         const CpuQuota pod{500, "/pod", "29:4", "cpu.max 50000 100000"};
         job[2].info.cpu_quotas = {{1000, "/pod/a", "29:5", "cpu.max 100000 100000"}, pod};
         job[3].info.cpu_quotas = {{1000, "/pod/b", "29:6", "cpu.max 100000 100000"}, pod};
         job[0].info.cpu_quotas = {{2000, "/", "29:4", "cpu.max 200000 100000"}};  // sufficient
       }},
      {"a setting that must agree",
       Severity::stops,
       "settings",
       {"TUTTI_CHUNK is 4096 on rank 2 (node2)", "not set on rank 0"},
       "-x TUTTI_CHUNK",
       [](Job& job) {
         for (const std::size_t rank : {2U, 3U}) {
           job[rank].settings["TUTTI_CHUNK"] = "4096";
           job[rank].info.settings["TUTTI_CHUNK"] = "4096";
         }
       }},
      {"a variable that was not passed on",
       Severity::slows,
       "settings",
       {"NCCL_ALGO is Ring on rank 0", "not set on rank 2"},
       "-x NCCL_ALGO",
       [](Job& job) { job[0].settings["NCCL_ALGO"] = job[1].settings["NCCL_ALGO"] = "Ring"; }},
      {"an interface named on one host only",
       Severity::note,
       "settings",
       {"TUTTI_SOCKET_IFNAME is eth0"},
       "-x TUTTI_SOCKET_IFNAME",
       [](Job& job) {
         job[0].settings["TUTTI_SOCKET_IFNAME"] = job[1].settings["TUTTI_SOCKET_IFNAME"] = "eth0";
       }},
      {"a range of too few ports",
       Severity::stops,
       "ports",
       {"TUTTI_PORT_RANGE=40000-40000 has 1 port for the 2 ranks of node1"},
       "one port for each",
       [](Job& job) {
         for (auto& facts : job) {
           facts.port_range = "40000-40000";
           facts.ports = 1;
         }
       }},
      {"another version",
       Severity::stops,
       "version",
       {"0.0.9 on rank 3 (node2)"},
       "the same version",
       [](Job& job) { job[3].info.version = "0.0.9"; }},
      {"another driver",
       Severity::note,
       "driver",
       {"12.4 on rank 0 (node1)", "12.1 on rank 2"},
       "the same driver",
       [](Job& job) { job[2].driver_version = job[3].driver_version = "12.1"; }},
      {"another NCCL",
       Severity::slows,
       "nccl",
       {"2.28", "2.20"},
       "the same NCCL",
       [](Job& job) { job[2].info.nccl_version = job[3].info.nccl_version = 22000; }},
      {"two ranks on one device",
       Severity::slows,
       "devices",
       {"NCCL can't serve", "node1"},
       "device of its own",
       [](Job& job) { job[1].info.devices[0].uuid = job[0].info.devices[0].uuid; }},
      {"a slice of a device",
       Severity::slows,
       "devices",
       {"MIG"},
       "whole device",
       [](Job& job) { job[1].info.devices[0].is_slice = true; }},
      {"a rank without a device",
       Severity::slows,
       "devices",
       {"rank 3"},
       "CUDA_VISIBLE_DEVICES",
       [](Job& job) {
         job[3].info.devices.clear();
         job[3].info.no_device_reason = "the driver shows no device";
       }},
      {"far from its device",
       Severity::slows,
       "locality",
       {"rank 1 (node1)", "0000:18:00.0"},
       "numa",
       [](Job& job) { job[1].device_is_far = {true}; }},
      {"devices that don't reach each other",
       Severity::slows,
       "peer access",
       {"devices of node2", "(0 and 2, 1 and 2)", "host memory"},
       "topo -p2p",
       [](Job& job) {
         job[2].without_peer_access = {{0, 2}, {1, 2}};
       }},
      {"clocks apart",
       Severity::note,
       "clock",
       {"node2 is 5.0 s ahead of that of node1"},
       "chrony",
       [](Job& job) { job[2].clock_ns = job[0].clock_ns + 5'000'000'000; }},
  };
  return all;
}

}  // namespace tutti::app::doctor::test
