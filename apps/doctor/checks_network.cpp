#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "doctor/advice.hpp"
#include "doctor/checks.hpp"
#include "rendezvous/interfaces.hpp"
#include "rendezvous/unacknowledged.hpp"
#include "tutti/error.hpp"

namespace tutti::app::doctor {
namespace {

constexpr double min_speed_ratio = 2;

std::string speed_text(int mbit) {
  return mbit % 1000 == 0 ? fmt::format("{} Gbit/s", mbit / 1000) : fmt::format("{} Mbit/s", mbit);
}

bool same_network(const LinkFact& one, const LinkFact& other) {
  const auto a = rendezvous::SocketAddress::parse(one.address);
  const auto b = rendezvous::SocketAddress::parse(other.address);
  return a && b && one.prefix_bits == other.prefix_bits && a->shares_prefix(*b, one.prefix_bits);
}

/// The finding that no address of a host is reachable from another host.
Finding unreachable(const JobFacts& job, std::size_t from, std::size_t to,
                    const std::vector<ReachFact>& tries) {
  std::vector<std::string> reasons;
  bool all_silent = true;
  for (const auto& it : tries) {
    reasons.push_back(fmt::format("{}: {}", it.address, it.failure));
    all_silent &= it.failure == "no answer";
  }
  const auto& range = job.of_host(to).port_range;
  return {Severity::stops, "reachability",
          fmt::format("{} can't connect to {} ({})", job.host_name(from), job.host_name(to),
                      reasons.empty() ? "it has no address of an address family that this host has"
                                      : list_some(reasons)),
          all_silent
              ? fmt::format("a firewall drops the packets, or a route is missing: open TCP {} "
                            "between the hosts, or select another network by TUTTI_SOCKET_IFNAME",
                            range.empty() ? "ports, a few by TUTTI_PORT_RANGE=40000-40015,"
                                          : fmt::format("ports {} (TUTTI_PORT_RANGE)", range))
              : "check the route between the hosts and their firewalls, or select another network "
                "by TUTTI_SOCKET_IFNAME"};
}

/// The address that tutti would use: one in a common network first.
const ReachFact* used_of(const std::vector<ReachFact>& tries) {
  const ReachFact* used = nullptr;
  for (const auto& it : tries) {
    if (!it.failure.empty()) continue;
    if (used == nullptr || (it.on_same_network && !used->on_same_network)) used = &it;
  }
  return used;
}

Finding large_packets_lost(const JobFacts& job, std::size_t from, std::size_t to,
                           const ReachFact& it, Severity severity) {
  const rendezvous::Unacknowledged lost{.packet_bytes = it.lost_packet_bytes,
                                        .is_ipv6 = it.is_ipv6};
  return {severity, "mtu",
          fmt::format("packets of {} bytes from {} to {} ({}) are lost, while small packets pass: "
                      "set-up works, and larger calls time out",
                      it.lost_packet_bytes, job.host_name(from), job.host_name(to), it.address),
          rendezvous::mtu_remedy(lost, job.host_name(from), job.host_name(to))};
}

}  // namespace

void check_reach(const JobFacts& job, Findings& findings) {
  constexpr std::size_t max_pairs = 8;
  std::size_t pairs = 0;
  for (std::size_t from = 0; from < job.hosts(); ++from) {
    std::map<int, std::vector<ReachFact>> tries;
    for (const auto& it : job.of_host(from).reached) tries[it.host].push_back(it);
    for (const auto& [host, reached] : tries) {
      const auto to = static_cast<std::size_t>(host);
      const auto* const used = used_of(reached);
      if (used == nullptr && ++pairs <= max_pairs) {
        findings.push_back(unreachable(job, from, to, reached));
      }
      if (used == nullptr) continue;
      for (const auto& it : reached) {
        if (it.lost_packet_bytes > 0 && ++pairs <= max_pairs) {
          const auto severity = &it == used ? Severity::stops : Severity::note;
          findings.push_back(large_packets_lost(job, from, to, it, severity));
        }
        // A failure in a network that only the other host is in is expected.
        if (it.failure.empty() || !it.on_same_network || ++pairs > max_pairs) continue;
        findings.push_back(
            {Severity::note, "reachability",
             fmt::format("{} can't reach {} at {} ({}), although both are in that network; another "
                         "network is used",
                         job.host_name(from), job.host_name(to), it.address, it.failure),
             "repair that network, or exclude it: TUTTI_SOCKET_IFNAME=^NAME"});
      }
    }
  }
  if (pairs > max_pairs) {
    findings.push_back({Severity::stops, "reachability",
                        fmt::format("{} more connections between hosts fail", pairs - max_pairs),
                        "fix the findings above first"});
  }
}

void check_networks(const JobFacts& job, Findings& findings) {
  std::vector<std::vector<rendezvous::SocketAddress>> addresses;
  std::vector<std::string> hosts;
  std::vector<std::string> identities;
  for (std::size_t rank = 0; rank < job.facts.size(); ++rank) {
    const auto& info = job.facts[rank].info;
    if (!info.failure.empty()) {
      findings.push_back({Severity::stops, "network",
                          fmt::format("{} can't listen: {}", job.rank(rank), info.failure),
                          "set the variable to a value that fits this host"});
      return;
    }
    addresses.push_back(info.addresses);
    hosts.push_back(info.host.name);
    identities.push_back(info.host.identity);
  }
  if (job.hosts() < 2) return;
  try {
    rendezvous::require_common_family(addresses, hosts, identities);
  } catch (const Error& error) {
    findings.push_back(
        {Severity::stops, "network", error.sentence(), "give all hosts an address of one family"});
  }

  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& mine = job.of_host(host);
    // Data uses the first chosen interface that all hosts can reach.
    const auto used = std::find_if(mine.links.begin(), mine.links.end(),
                                   [](const LinkFact& link) { return link.chosen; });
    if (used == mine.links.end()) continue;
    for (const auto& other : mine.links) {
      if (other.name == used->name || used->speed_mbit <= 0 || !other.chosen) continue;
      if (other.speed_mbit >= min_speed_ratio * used->speed_mbit) {
        findings.push_back(
            {Severity::slows, "speed",
             fmt::format("{} uses {} ({}) first, but {} ({}) is faster", job.host_name(host),
                         used->name, speed_text(used->speed_mbit), other.name,
                         speed_text(other.speed_mbit)),
             "if all hosts have it: " +
                 pass_variable(job.launcher(), "TUTTI_SOCKET_IFNAME=" + other.name)});
        break;
      }
    }
    // Compares with the first host in the same network only, so one odd host gives one finding.
    bool speed_reported = false;
    bool mtu_reported = false;
    for (std::size_t before = 0; before < host; ++before) {
      for (const auto& theirs : job.of_host(before).links) {
        if (!theirs.chosen || !same_network(*used, theirs)) continue;
        if (!mtu_reported && theirs.mtu > 0 && used->mtu > 0 && theirs.mtu != used->mtu) {
          mtu_reported = true;
          findings.push_back(
              {Severity::slows, "mtu",
               fmt::format("the MTU of {} on {} is {}, and of {} on {} {}: large packets may be "
                           "lost between them",
                           used->name, job.host_name(host), used->mtu, theirs.name,
                           job.host_name(before), theirs.mtu),
               fmt::format("set the same MTU: ip link set {} mtu {}", used->name,
                           std::min(used->mtu, theirs.mtu))});
        }
        if (!speed_reported && theirs.speed_mbit > 0 && used->speed_mbit > 0 &&
            theirs.speed_mbit >= min_speed_ratio * used->speed_mbit) {
          speed_reported = true;
          findings.push_back(
              {Severity::slows, "speed",
               fmt::format(
                   "{} of {} runs at {}, {} of {} at {}: the slower link limits the whole job",
                   used->name, job.host_name(host), speed_text(used->speed_mbit), theirs.name,
                   job.host_name(before), speed_text(theirs.speed_mbit)),
               "check its cable, the switch port, and ethtool " + used->name});
        }
      }
    }
  }

  std::map<std::string, std::vector<std::string>> rdma;
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& devices = job.of_host(host).rdma;
    if (!devices.empty()) rdma[list_some(devices)].push_back(job.host_name(host));
  }
  for (const auto& [devices, names] : rdma) {
    findings.push_back(
        {Severity::note, "rdma",
         fmt::format("{} has RDMA devices ({}), but tutti sends host memory over TCP",
                     list_some(names), devices),
         "NCCL uses RDMA for GPU buffers; for host buffers select its IP interface by "
         "TUTTI_SOCKET_IFNAME, such as ib0"});
  }
}

void check_names(const JobFacts& job, Findings& findings) {
  if (job.hosts() < 2) return;
  std::vector<std::string> loopback;
  std::vector<std::string> unresolved;
  std::string example;
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& it = job.of_host(host);
    if (!it.own_name_failure.empty()) unresolved.push_back(job.host_name(host));
    for (const auto& address : it.own_name_addresses) {
      const auto parsed = rendezvous::SocketAddress::parse(address);
      if (!parsed || !parsed->is_loopback()) continue;
      loopback.push_back(job.host_name(host));
      example = address;
      break;
    }
  }
  if (!loopback.empty()) {
    findings.push_back(
        {Severity::note, "names",
         fmt::format(
             "the host name of {} resolves to loopback ({}): tutti does not use host names, but "
             "Gloo, torchrun and MASTER_ADDR do, and other hosts can't connect to them",
             list_some(loopback), example),
         "map the name to the host's own address in /etc/hosts, instead of 127.0.1.1"});
  }
  if (!unresolved.empty()) {
    findings.push_back({Severity::note, "names",
                        fmt::format("the host name of {} does not resolve there: programs that use "
                                    "host names will fail or wait",
                                    list_some(unresolved)),
                        "add it to /etc/hosts or to DNS"});
  }
}

/// Rank 0 listens on MASTER_PORT, so only its host matters.
void check_port(const JobFacts& job, Findings& findings) {
  const auto& why = job.facts[0].unsafe_port;
  if (why.empty()) return;
  findings.push_back({Severity::note, "ports",
                      fmt::format("{}: any program on {} may have taken it when the job starts",
                                  why, job.host_name(0)),
                      "choose a port outside that range, such as 29500, or reserve it "
                      "(net.ipv4.ip_local_reserved_ports)"});
}

}  // namespace tutti::app::doctor
