#include "hostfile/subcommand.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/quiet_thread.hpp"
#include "hostfile/placement.hpp"
#include "output.hpp"
#include "read_file.hpp"
#include "text.hpp"
#include "tutti/error.hpp"

namespace tutti::app {
namespace {

// Limit for name lookups: a slow name server must not block a dry run.
constexpr std::chrono::seconds patience{3};
constexpr std::size_t max_lookups_at_once = 16;

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return text.data();
}

/// Addresses of this machine.
std::set<std::string> own_addresses() {
  std::set<std::string> result;
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return result;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const auto family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) result.insert(address_text(entry->ifa_addr));
  }
  return result;
}

std::vector<std::string> look_up(const std::string& host, const std::set<std::string>& own) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &raw) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, ::freeaddrinfo);
  std::set<std::string> result;
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const auto text = address_text(entry->ai_addr);
    result.insert(own.contains(text) || text.starts_with("127.") ? hostfile::this_machine : text);
  }
  return {result.begin(), result.end()};
}

/// Looks up all names in parallel, within a limit. Names without an answer by then stay unknown;
/// their threads are detached, and the process ends soon.
struct Lookups {
  std::mutex mutex;
  std::condition_variable done;
  std::vector<std::string> names;
  std::set<std::string> own = own_addresses();
  std::size_t next = 0;
  std::size_t finished = 0;
  std::map<std::string, std::vector<std::string>> found;

  static std::map<std::string, std::vector<std::string>> run(std::vector<std::string> names) {
    auto shared = std::make_shared<Lookups>();
    shared->names = std::move(names);
    const auto threads = std::min(max_lookups_at_once, shared->names.size());
    try {
      for (std::size_t i = 0; i < threads; ++i) {
        start_quiet_thread("to look up hosts", [shared] { shared->work(); }).detach();
      }
    } catch (const Error&) {
      // Continues with the threads that have started; without any, the names stay unknown.
    }
    std::unique_lock lock(shared->mutex);
    shared->done.wait_for(lock, patience, [&] { return shared->finished == shared->names.size(); });
    return shared->found;
  }

  void work() {
    while (true) {
      std::string name;
      {
        const std::lock_guard lock(mutex);
        if (next == names.size()) return;
        name = names[next++];
      }
      auto addresses = look_up(name, own);
      const std::lock_guard lock(mutex);
      found[name] = std::move(addresses);
      if (++finished == names.size()) done.notify_all();
    }
  }
};

nlohmann::json as_json(const hostfile::Placement& placement, const std::string& map_by) {
  nlohmann::json hosts = nlohmann::json::array();
  for (const auto& host : placement.hosts) {
    hosts.push_back({{"name", host.entry.name},
                     {"line", host.entry.line},
                     {"slots", host.slots},
                     {"slots_assumed", !host.entry.slots.has_value()},
                     {"same_as", placement.hosts[host.alias].entry.name}});
  }
  nlohmann::json ranks = nlohmann::json::array();
  for (const auto& rank : placement.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"host", placement.hosts[rank.entry].entry.name},
                     {"local_rank", rank.local_rank}});
  }
  return {{"schema", 1},    {"map_by", map_by}, {"host_count", placement.host_count},
          {"hosts", hosts}, {"ranks", ranks},   {"notes", placement.notes}};
}

std::string as_table(const hostfile::Placement& placement, const std::string& map_by) {
  std::size_t width = 4;
  for (const auto& host : placement.hosts) width = std::max(width, host.entry.name.size());
  auto text = fmt::format("{:<6}{:<{}}  local rank\n", "rank", "host", width);
  for (const auto& rank : placement.ranks) {
    text += fmt::format("{:<6}{:<{}}  {}\n", rank.rank, placement.hosts[rank.entry].entry.name,
                        width, rank.local_rank);
  }
  text += fmt::format("{} on {}, by {}\n",
                      count_text(static_cast<long>(placement.ranks.size()), "rank"),
                      count_text(placement.host_count, "host"), map_by);
  for (const auto& note : placement.notes) text += note + "\n";
  return text;
}

}  // namespace

int hostfile(const HostfileOptions& options) {
  const auto name = options.file == "-" ? std::string("standard input") : options.file;
  std::vector<std::string> notes;
  const auto hosts =
      hostfile::parse_hostfile(read_file(options.file, "the hostfile"), name, &notes);
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& host : hosts) names.push_back(host.name);
  const auto found = Lookups::run(std::move(names));

  hostfile::PlacementRequest request{.ranks = options.ranks,
                                     .map_by = hostfile::parse_map_by(options.map_by),
                                     .rules = hostfile::parse_rules(options.mpi),
                                     .cores = options.cores,
                                     .cores_source = "--cores"};
  if (request.cores == 0) {
    request.cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    request.cores_source = "the cores of this machine; --cores N overrides it";
  }
  const auto resolve = [&](const std::string& host) -> std::vector<std::string> {
    const auto entry = found.find(host);
    return entry == found.end() ? std::vector<std::string>() : entry->second;
  };
  auto placement = hostfile::place_ranks(hosts, name, request, resolve);
  placement.notes.insert(placement.notes.begin(), notes.begin(), notes.end());
  if (options.mpi == "openmpi5") {
    request.rules = hostfile::Rules::open_mpi_4;
    if (!same_places(placement, hostfile::place_ranks(hosts, name, request, resolve))) {
      placement.notes.emplace_back(
          "Open MPI 4, with mpirun on this machine, places the ranks differently: see --mpi "
          "openmpi4");
    }
  }

  if (options.json == "-") {
    print(as_json(placement, options.map_by).dump(1) + "\n");
    return 0;
  }
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << as_json(placement, options.map_by).dump(1) << "\n";
    if (!file.flush()) {
      throw Error(ErrorCode::usage, fmt::format("--json {} can't be written: {}", options.json,
                                                std::strerror(errno)));
    }
  }
  print(as_table(placement, options.map_by));
  return 0;
}

}  // namespace tutti::app
