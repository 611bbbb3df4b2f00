#include "rendezvous/interfaces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>

#include "base/system_error.hpp"

namespace tutti::rendezvous {
namespace {

int prefix_bits_of(const sockaddr* mask, int family) {
  if (mask == nullptr) return 0;
  const void* raw =
      family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  const auto* bytes = static_cast<const unsigned char*>(raw);
  int bits = 0;
  for (int i = 0; i < (family == AF_INET ? 4 : 16); ++i) bits += std::popcount(bytes[i]);
  return bits;
}

std::optional<int> parse_bits(std::string_view text, int max) {
  int bits = -1;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, bits);
  if (result.ec != std::errc() || result.ptr != end || bits < 0 || bits > max) return std::nullopt;
  return bits;
}

/// The variable that selects interfaces, with its value; empty if there is none.
std::string source_of(const Environment& environment) {
  if (environment.socket_ifname_source.empty()) return {};
  return environment.socket_ifname_source + "=" + environment.socket_ifname;
}

bool is_usable(unsigned flags) {
  // The kernel may set IFF_RUNNING up to a second after the link carries data. <net/if.h> lacks the
  // flags of <linux/if.h>, which can't be included beside it.
  constexpr unsigned lower_up = 0x10000, dormant = 0x20000;
  const bool has_carrier = (flags & lower_up) != 0 && (flags & dormant) == 0;
  return (flags & IFF_UP) != 0 && ((flags & IFF_RUNNING) != 0 || has_carrier);
}

bool is_of(const SocketAddress& address, SocketFamily family) {
  if (family == SocketFamily::any) return true;
  return address.family() == (family == SocketFamily::v4 ? AF_INET : AF_INET6);
}

/// "eth0 (10.0.0.1, fd00::1), lo (127.0.0.1)"
std::string list_interfaces(const std::vector<Interface>& interfaces) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_name;
  for (const auto& interface : interfaces) {
    const auto known = std::find_if(by_name.begin(), by_name.end(), [&](const auto& entry) {
      return entry.first == interface.name;
    });
    auto& entry = known == by_name.end()
                      ? by_name.emplace_back(interface.name, std::vector<std::string>())
                      : *known;
    entry.second.push_back(interface.address.host_text());
  }
  std::vector<std::string> parts;
  parts.reserve(by_name.size());
  for (const auto& [name, addresses] : by_name) {
    parts.push_back(fmt::format("{} ({})", name, fmt::join(addresses, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

bool is_virtual_bridge(std::string_view name) {
  constexpr std::array<std::string_view, 7> prefixes{"docker", "br-",    "virbr", "veth",
                                                     "cni",    "podman", "lxc"};
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

InterfaceFilter::InterfaceFilter(std::string_view text, const std::string& source) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  if (!text.empty() && text.front() == '^') {
    exclude_ = true;
    text.remove_prefix(1);
  }
  if (!text.empty() && text.front() == '=') {
    whole_names_ = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    auto name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    while (!name.empty() && is_blank(name.front())) name.remove_prefix(1);
    while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
    if (name.empty()) continue;
    const auto slash = name.find('/');
    if (slash == std::string_view::npos) {
      names_.emplace_back(name);
      continue;
    }
    const auto address = SocketAddress::parse(std::string(name.substr(0, slash)));
    const auto bits =
        address ? parse_bits(name.substr(slash + 1), address->family() == AF_INET ? 32 : 128)
                : std::nullopt;
    if (!bits) {
      throw Error(
          ErrorCode::usage,
          fmt::format("{} is unusable: {} is not a network; give an address, a slash and the "
                      "prefix length, such as 10.0.0.0/8 or fd00::/8",
                      source, name));
    }
    networks_.push_back({*address, *bits});
  }
}

bool InterfaceFilter::lists(std::string_view name) const {
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& wanted) {
    return whole_names_ ? name == wanted : name.substr(0, wanted.size()) == wanted;
  });
}

bool InterfaceFilter::allows(std::string_view name) const {
  return !is_set() || lists(name) != exclude_;
}

bool InterfaceFilter::allows(const Interface& interface) const {
  const bool listed =
      lists(interface.name) ||
      std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
        return network.address.shares_prefix(interface.address, network.prefix_bits);
      });
  return !is_set() || listed != exclude_;
}

std::vector<Interface> all_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) throw system_error("can't list the network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);
  std::vector<Interface> result;
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const auto family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (!is_usable(entry->ifa_flags)) continue;
    result.push_back({.name = entry->ifa_name,
                      .address = SocketAddress(entry->ifa_addr),
                      .prefix_bits = prefix_bits_of(entry->ifa_netmask, family)});
  }
  return result;
}

std::vector<Interface> choose_interfaces(std::vector<Interface> all, const InterfaceFilter& filter,
                                         const std::string& source, SocketFamily family) {
  const auto listing = list_interfaces(all);
  const auto may_be_used = [&](const Interface& interface) {
    if (interface.address.is_link_local()) return false;
    if (interface.address.is_loopback() && !filter.is_allow_list()) return false;
    return filter.allows(interface);
  };
  auto chosen = std::move(all);
  std::erase_if(chosen, [&](const Interface& interface) { return !may_be_used(interface); });
  if (chosen.empty() && filter.is_allow_list()) {
    throw Error(ErrorCode::usage, fmt::format("{} leaves no usable network interface; this host "
                                              "has {}",
                                              source, listing));
  }
  const bool had_some = !chosen.empty();
  std::erase_if(chosen,
                [&](const Interface& interface) { return !is_of(interface.address, family); });
  if (chosen.empty() && had_some) {
    throw Error(ErrorCode::usage,
                fmt::format("TUTTI_SOCKET_FAMILY={}{} leaves no usable address; this host has {}",
                            family == SocketFamily::v4 ? 4 : 6,
                            source.empty() ? "" : " with " + source, listing));
  }
  std::stable_partition(chosen.begin(), chosen.end(), [](const Interface& interface) {
    return !is_virtual_bridge(interface.name);
  });
  return chosen;
}

InterfaceFilter InterfaceFilter::from(const Environment& environment) {
  const bool is_gloos = environment.socket_ifname_source == "GLOO_SOCKET_IFNAME";
  return InterfaceFilter((is_gloos ? "=" : "") + environment.socket_ifname, source_of(environment));
}

std::vector<Interface> usable_interfaces(const Environment& environment) {
  return choose_interfaces(all_interfaces(), InterfaceFilter::from(environment),
                           source_of(environment), environment.socket_family);
}

int bind_source(int socket, const std::vector<Interface>& sources, const SocketAddress& target) {
  if (target.is_loopback() || sources.empty()) return 0;
  const Interface* source = nullptr;
  int of_family = 0;
  for (const auto& own : sources) {
    if (own.address.family() != target.family() || own.address.is_loopback()) continue;
    ++of_family;
    const bool beside = own.address.shares_prefix(target, own.prefix_bits);
    if (beside) {
      source = &own;
      // Two interfaces may be in one network. Old kernels require a privilege for this option; then
      // binding the address has to do.
      ::setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, own.name.c_str(),
                   static_cast<socklen_t>(own.name.size()));
      break;
    }
    source = &own;
  }
  // For a routed target with several interfaces, the kernel's routing table decides.
  if (source == nullptr ||
      (of_family > 1 && !source->address.shares_prefix(target, source->prefix_bits))) {
    return 0;
  }
  auto address = source->address;
  address.set_port(0);
  // The port is chosen at connect(), so that dials to several peers can share one.
  const int on = 1;
  ::setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  return ::bind(socket, address.get(), address.length()) == 0 ? 0 : errno;
}

void require_common_family(const std::vector<std::vector<SocketAddress>>& addresses,
                           const std::vector<std::string>& hosts,
                           const std::vector<std::string>& identities) {
  const auto list = [&](std::size_t rank) {
    std::vector<std::string> texts;
    for (const auto& address : addresses[rank]) {
      if (!address.is_loopback()) texts.push_back(address.host_text());
    }
    return fmt::format(
        "rank {} ({}) has {}", rank, hosts[rank],
        texts.empty() ? "no address but loopback" : fmt::format("{}", fmt::join(texts, ", ")));
  };
  const auto reaches = [&](std::size_t rank, int family) {
    return std::any_of(addresses[rank].begin(), addresses[rank].end(), [&](const auto& address) {
      return !address.is_loopback() && address.family() == family;
    });
  };
  // One rank for each set of address families is enough.
  std::array<std::optional<std::size_t>, 4> of_kind;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    const auto kind = (reaches(rank, AF_INET) ? 1U : 0U) + (reaches(rank, AF_INET6) ? 2U : 0U);
    if (!of_kind.at(kind)) of_kind.at(kind) = rank;
  }
  // A rank with only loopback (such as with TUTTI_SOCKET_IFNAME=lo) reaches no other host.
  for (std::size_t rank = 0; rank < addresses.size() && of_kind[0]; ++rank) {
    const auto first = *of_kind[0];
    if (reaches(rank, AF_INET) || reaches(rank, AF_INET6)) continue;
    if (identities[rank] == identities[first]) continue;
    if (identities[rank].starts_with("TUTTI_HOST_ID=")) continue;
    throw Error(ErrorCode::mismatch,
                fmt::format("{}, {}, on another host: set TUTTI_SOCKET_IFNAME to a network that "
                            "both hosts are in, or unset it",
                            list(first), list(rank)),
                {static_cast<int>(first), static_cast<int>(rank)});
  }
  constexpr std::array<std::pair<unsigned, unsigned>, 4> apart{{{1, 2}, {0, 1}, {0, 2}, {0, 3}}};
  for (const auto& [one, other] : apart) {
    const auto& a = of_kind.at(one);
    const auto& b = of_kind.at(other);
    // Ranks of one host use loopback.
    if (!a || !b || identities[*a] == identities[*b]) continue;
    // So do "hosts" defined by TUTTI_HOST_ID.
    if (identities[*a].starts_with("TUTTI_HOST_ID=")) continue;
    const auto first = std::min(*a, *b);
    const auto second = std::max(*a, *b);
    throw Error(ErrorCode::mismatch,
                fmt::format("{}, {}: the hosts have no address family in common; give both IPv4 "
                            "or both IPv6, or check TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY",
                            list(first), list(second)),
                {static_cast<int>(first), static_cast<int>(second)});
  }
}

}  // namespace tutti::rendezvous
