#include "hostfile/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include "tutti/error.hpp"

namespace tutti::hostfile {
namespace {

constexpr std::size_t max_hosts_listed = 8;
constexpr int max_per_host = 1 << 20;

using Hosts = std::vector<Placement::Host>;

/// "a: 2, b: 1"; a long list ends with the number of further hosts.
std::string list_slots(const Hosts& hosts,
                       const std::function<int(const Placement::Host&)>& count) {
  std::vector<std::string> parts;
  for (const auto& host : hosts) {
    if (parts.size() == max_hosts_listed) break;
    parts.push_back(fmt::format("{}: {}", host.entry.name, count(host)));
  }
  const auto left = hosts.size() - parts.size();
  return fmt::format("{}{}", fmt::join(parts, ", "),
                     left > 0 ? fmt::format(", {} more", left) : "");
}

void find_aliases(Placement& placement, const std::string& file, const Resolver& resolve) {
  std::map<std::string, std::size_t> owner;
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    auto& host = placement.hosts[i];
    host.alias = i;
    // Different SSH ports of one address may lead to different machines (containers).
    const auto port = fmt::format(" port {}", host.entry.port.value_or(0));
    for (const auto& key : resolve(host.entry.name)) {
      const auto first = owner.emplace(key + port, i).first->second;
      if (first == i || host.alias != i) continue;
      host.alias = placement.hosts[first].alias;
      const auto& same = placement.hosts[host.alias].entry;
      placement.notes.push_back(
          fmt::format("{}:{}: {} is the same host as {} of line {} ({}): its local ranks continue "
                      "from there; use one name for each host",
                      file, host.entry.line, host.entry.name, same.name, same.line, key));
    }
  }
}

/// The order in which hosts get ranks.
std::vector<std::size_t> order_of(const Placement& placement, Rules rules,
                                  const Resolver& resolve) {
  std::vector<std::size_t> order(placement.hosts.size());
  std::iota(order.begin(), order.end(), 0);
  if (rules == Rules::open_mpi_4) {
    std::stable_partition(order.begin(), order.end(), [&](std::size_t host) {
      const auto keys = resolve(placement.hosts[host].entry.name);
      return std::find(keys.begin(), keys.end(), this_machine) != keys.end();
    });
  }
  return order;
}

/// Number of ranks per host, for mapping by node.
using Counts = std::vector<int>;

Counts round_robin(const Counts& free_slots, long ranks) {
  Counts counts(free_slots.size(), 0);
  while (ranks > 0) {
    for (std::size_t i = 0; i < free_slots.size() && ranks > 0; ++i) {
      if (counts[i] == free_slots[i]) continue;
      ++counts[i];
      --ranks;
    }
  }
  return counts;
}

/// Reproduces Open MPI 4.1. Each round gives equal shares to the hosts with free slots; the first
/// hosts get one more if the ranks don't divide evenly. Ranks that exceed a host's free slots go to
/// the next round. Its shares count all hosts of the previous round, full or not.
Counts equal_shares(const Counts& free_slots, long ranks) {
  Counts counts(free_slots.size(), 0);
  auto sharing = static_cast<long>(free_slots.size());
  while (ranks > 0 && sharing > 0) {
    const long share = std::max(ranks / sharing, 1L);
    long one_more = std::max(ranks - share * sharing, 0L);
    sharing = 0;
    for (std::size_t i = 0; i < free_slots.size(); ++i) {
      if (counts[i] == free_slots[i]) continue;
      const long due = share + (one_more-- > 0 ? 1 : 0);
      const auto taken = std::min({due, static_cast<long>(free_slots[i] - counts[i]), ranks});
      counts[i] += static_cast<int>(taken);
      ranks -= taken;
      ++sharing;
    }
  }
  return counts;
}

void add_rank(Placement& placement, std::map<std::size_t, int>& taken, std::size_t host) {
  placement.ranks.push_back({.rank = static_cast<int>(placement.ranks.size()),
                             .entry = host,
                             .local_rank = taken[placement.hosts[host].alias]++});
}

}  // namespace

MapBy parse_map_by(std::string_view text) {
  MapBy result;
  result.text = text;
  if (text == "slot") return result;
  if (text == "node") {
    result.kind = MapBy::Kind::node;
    return result;
  }
  constexpr std::string_view head = "ppr:";
  constexpr std::string_view tail = ":node";
  if (text.starts_with(head) && text.ends_with(tail) && text.size() > head.size() + tail.size()) {
    const auto number = text.substr(head.size(), text.size() - head.size() - tail.size());
    const auto* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, result.per_host);
    if (read.ec == std::errc() && read.ptr == end && result.per_host >= 1 &&
        result.per_host <= max_per_host) {
      result.kind = MapBy::Kind::ppr;
      return result;
    }
  }
  throw Error(ErrorCode::usage,
              fmt::format("invalid --map-by '{}': expected slot, node or ppr:N:node", text));
}

Rules parse_rules(std::string_view text) {
  if (text == "openmpi5" || text == "mpich") return Rules::open_mpi_5;
  if (text == "openmpi4") return Rules::open_mpi_4;
  throw Error(ErrorCode::usage,
              fmt::format("invalid --mpi '{}': expected openmpi4, openmpi5 or mpich", text));
}

Placement place_ranks(const std::vector<HostEntry>& hosts, const std::string& file,
                      const PlacementRequest& request, const Resolver& resolve) {
  Placement placement;
  std::vector<std::string> bare;
  for (const auto& host : hosts) {
    placement.hosts.push_back(
        {.entry = host, .slots = host.slots.value_or(request.cores), .alias = 0});
    if (!host.slots) bare.push_back(host.name);
  }
  if (!bare.empty()) {
    const bool many = bare.size() > max_hosts_listed;
    const auto listed = many ? std::vector(bare.begin(), bare.begin() + max_hosts_listed) : bare;
    placement.notes.push_back(fmt::format(
        "assumed: hosts without a slot count ({}{}) have {} slots each ({})",
        fmt::join(listed, ", "), many ? fmt::format(", {} more", bare.size() - listed.size()) : "",
        request.cores, request.cores_source));
  }
  find_aliases(placement, file, resolve);

  const bool is_ppr = request.map_by.kind == MapBy::Kind::ppr;
  const auto available = [&](const Placement::Host& host) {
    return is_ppr ? std::min(host.slots, request.map_by.per_host) : host.slots;
  };
  long have = 0;
  for (const auto& host : placement.hosts) have += available(host);
  if (is_ppr) {
    for (const auto& host : placement.hosts) {
      if (host.slots >= request.map_by.per_host) continue;
      throw Error(ErrorCode::usage,
                  fmt::format("{}:{}: --map-by {} needs {} slots on each host, {} has {}: give it "
                              "more, or ask for fewer",
                              file, host.entry.line, request.map_by.text, request.map_by.per_host,
                              host.entry.name, host.slots));
    }
  }
  const long need = request.ranks > 0 ? request.ranks : have;
  if (need > have) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{}: need {}, have {} ({}): add hosts or slots, start fewer ranks, or let "
                    "mpirun --oversubscribe place more ranks on a host than it has slots",
                    file, need, have, list_slots(placement.hosts, available)));
  }

  const auto order = order_of(placement, request.rules, resolve);
  Counts free_slots;
  for (const auto host : order) free_slots.push_back(available(placement.hosts[host]));
  std::map<std::size_t, int> taken;
  const auto left = [&] { return need - static_cast<long>(placement.ranks.size()); };
  if (request.map_by.kind == MapBy::Kind::node) {
    auto counts = request.rules == Rules::open_mpi_4 ? equal_shares(free_slots, need)
                                                     : round_robin(free_slots, need);
    while (left() > 0) {
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (counts[i]-- > 0) add_rank(placement, taken, order[i]);
      }
    }
  } else {
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (auto n = std::min<long>(free_slots[i], left()); n > 0; --n) {
        add_rank(placement, taken, order[i]);
      }
    }
  }
  placement.host_count = static_cast<int>(taken.size());
  return placement;
}

bool same_places(const Placement& one, const Placement& other) {
  return std::equal(one.ranks.begin(), one.ranks.end(), other.ranks.begin(), other.ranks.end(),
                    [](const PlannedRank& left, const PlannedRank& right) {
                      return left.entry == right.entry && left.local_rank == right.local_rank;
                    });
}

}  // namespace tutti::hostfile
