#include "doctor/gather.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "device/inventory.hpp"
#include "device/library.hpp"
#include "device/locality.hpp"
#include "doctor/advice.hpp"
#include "rendezvous/interfaces.hpp"
#include "rendezvous/port_holder.hpp"
#include "tutti/error.hpp"

namespace tutti::app::doctor {
namespace {

constexpr std::chrono::seconds lookup_timeout{2};
constexpr std::size_t max_value = 200;  // longer values are cut to this number of characters

int read_number(const std::filesystem::path& path, int otherwise) {
  std::ifstream file(path);
  int number = otherwise;
  return file >> number ? number : otherwise;
}

std::vector<LinkFact> find_interfaces(const Environment& environment) {
  const auto chosen = [&] {
    try {
      return rendezvous::usable_interfaces(environment);
    } catch (const Error&) {
      return std::vector<rendezvous::Interface>();  // make_peer_info() reports it
    }
  }();
  std::vector<LinkFact> result;
  const auto add = [&](const rendezvous::Interface& interface, bool is_chosen) {
    const auto folder = std::filesystem::path("/sys/class/net") / interface.name;
    result.push_back({.name = interface.name,
                      .address = interface.address.host_text(),
                      .prefix_bits = interface.prefix_bits,
                      .speed_mbit = read_number(folder / "speed", -1),
                      .mtu = read_number(folder / "mtu", 0),
                      .chosen = is_chosen});
  };
  for (const auto& interface : chosen) add(interface, true);  // in order of preference
  for (const auto& interface : rendezvous::all_interfaces()) {
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const auto& other) {
      return other.name == interface.name && other.address.is_same_host(interface.address);
    });
    if (!known && !interface.address.is_loopback()) add(interface, false);
  }
  return result;
}

struct NameLookup {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int result = 0;
  std::vector<std::string> addresses;
};

/// Resolves the name in a detached thread, since getaddrinfo() has no timeout.
void look_up_own_name(const std::string& name, Facts& facts) {
  auto lookup = std::make_shared<NameLookup>();
  start_quiet_thread("to look up a host's name", [lookup, name] {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* raw = nullptr;
    const int result = ::getaddrinfo(name.c_str(), nullptr, &hints, &raw);
    const std::lock_guard lock(lookup->mutex);
    lookup->result = result;
    for (const auto* entry = raw; entry != nullptr; entry = entry->ai_next) {
      lookup->addresses.push_back(rendezvous::SocketAddress(entry->ai_addr).host_text());
    }
    if (raw != nullptr) ::freeaddrinfo(raw);
    lookup->done = true;
    lookup->changed.notify_all();
  }).detach();
  std::unique_lock lock(lookup->mutex);
  if (!lookup->changed.wait_for(lock, lookup_timeout, [&] { return lookup->done; })) {
    facts.own_name_failure = "no answer";
  } else if (lookup->result != 0) {
    facts.own_name_failure = ::gai_strerror(lookup->result);
  } else {
    facts.own_name_addresses = lookup->addresses;
  }
}

std::map<std::string, std::string> find_settings(const EnvironmentMap& map) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : map) {
    const bool ours =
        name.starts_with("TUTTI_") || name.starts_with("NCCL_") || name.starts_with("GLOO_");
    const bool secret = name.find("SECRET") != std::string::npos || name == "TUTTI_BUILD";
    if (ours && !secret && !value.empty()) result[name] = value.substr(0, max_value);
  }
  return result;
}

void read_devices(Facts& facts) {
  const auto cuda = device::load_cuda();
  int version = 0;
  if (cuda.usable() && cuda.calls.driver_version != nullptr &&
      cuda.calls.driver_version(&version) == device::cuda_success) {
    facts.driver_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  }
  auto inventory = device::take_inventory(cuda.calls, cuda.missing);
  facts.info.devices = std::move(inventory.devices);
  facts.info.no_device_reason = inventory.none_because;
  for (const auto& device : facts.info.devices) {
    facts.device_is_far.push_back(device::device_locality(device.bus_id).far_from_cpus);
  }
  if (!facts.info.devices.empty())
    facts.without_peer_access = device::pairs_without_peer_access(cuda.calls);
  const auto nccl = device::load_nccl();
  facts.info.no_nccl_reason = nccl.missing;
  int nccl_version = 0;
  if (nccl.usable() && nccl.calls.get_version(&nccl_version) == device::nccl_success) {
    facts.info.nccl_version = static_cast<std::uint32_t>(nccl_version);
  }
}

std::vector<std::string> entries_of(const char* folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Warning about the port that rank 0 listens on without MPI (under torchrun, torchrun does).
std::string check_master_port(const EnvironmentMap& map) {
  const auto found = map.find("MASTER_PORT");
  if (found == map.end()) return {};
  int port = 0;
  const auto& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), port);
  const auto why = rendezvous::ephemeral_port_warning(port);
  return why.empty() ? why : fmt::format("MASTER_PORT={}: {}", found->second, why);
}

}  // namespace

Facts gather_facts(const EnvironmentMap& map, const Environment& environment) {
  Facts facts;
  facts.info = rendezvous::make_peer_info(environment);
  facts.links = find_interfaces(environment);
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    try {
      look_up_own_name(name.data(), facts);
    } catch (const Error& error) {
      facts.own_name_failure = error.sentence();
    }
  }

  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.locked_memory = limit.rlim_cur;
  }
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) == 0) {
    facts.shared_memory = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) facts.cpus.push_back(cpu);
    }
  }
  facts.machine_cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  read_devices(facts);
  facts.settings = find_settings(map);
  facts.launcher = launcher_in(map);
  if (environment.port_range.is_set()) {
    facts.port_range = environment.port_range.text();
    facts.ports = environment.port_range.last - environment.port_range.first + 1;
  }
  facts.unsafe_port = check_master_port(map);
  facts.rdma = entries_of("/sys/class/infiniband");
  return facts;
}

std::string try_single_copy(const Facts& neighbour) {
  std::array<char, 16> read{};
  const iovec local{read.data(), read.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process
  const iovec remote{reinterpret_cast<void*>(neighbour.nonce_address), read.size()};
  const auto got =
      ::process_vm_readv(static_cast<pid_t>(neighbour.info.pid), &local, 1, &remote, 1, 0);
  if (got < 0) return errno_text(errno);
  const std::string_view found(read.data(), read.size());
  return found == neighbour.token ? "" : "its process id names another process here";
}

}  // namespace tutti::app::doctor
