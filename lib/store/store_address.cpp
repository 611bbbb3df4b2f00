#include "store/store_address.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <optional>
#include <thread>

#include "base/keep_mapped.hpp"
#include "launch/nesting.hpp"
#include "tutti/error.hpp"

namespace tutti::store {
namespace {

using rendezvous::SocketAddress;

constexpr int max_port = 65535;

[[noreturn]] void fail(const std::string& sentence) {
  throw Error(ErrorCode::usage, sentence);
}

std::optional<std::uint16_t> port_in(std::string_view text) {
  int number = 0;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 1 || number > max_port) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(number);
}

std::string value_of(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

/// "[fd00::1]" and "fd00::1" are the same host.
std::string without_brackets(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return host.substr(1, host.size() - 2);
  }
  return host;
}

StoreAddress from_url(const launch::InitChoice& choice) {
  const auto rest = std::string_view(choice.url).substr(std::string_view("tcp://").size());
  const auto colon = rest.rfind(':');
  const auto port =
      colon == std::string_view::npos ? std::nullopt : port_in(rest.substr(colon + 1));
  const auto host = std::string(rest.substr(0, colon));
  const bool ambiguous = host.find(':') != std::string::npos && host.front() != '[';
  if (!port || host.empty() || ambiguous) {
    fail(
        fmt::format("{} is unusable: give tcp://HOST:PORT, with a port from 1 to {} and IPv6 "
                    "addresses in brackets",
                    choice.source, max_port));
  }
  return {.host = without_brackets(host), .port = *port, .source = choice.source};
}

StoreAddress from_master(const EnvironmentMap& environment, const launch::Resolved& resolved) {
  const auto host = value_of(environment, "MASTER_ADDR");
  const auto port_text = value_of(environment, "MASTER_PORT");
  if (host.empty() || port_text.empty()) {
    fail(
        fmt::format("{} {} not set: rank 0 needs an address and a free port for the other ranks; "
                    "set MASTER_ADDR and MASTER_PORT on all ranks, or use --init tcp://HOST:PORT "
                    "(TUTTI_INIT)",
                    host.empty() && port_text.empty() ? "MASTER_ADDR and MASTER_PORT"
                    : host.empty()                    ? "MASTER_ADDR"
                                                      : "MASTER_PORT",
                    host.empty() && port_text.empty() ? "are" : "is"));
  }
  const auto port = port_in(port_text);
  if (!port) {
    fail(fmt::format("MASTER_PORT={} is not a valid port: set an integer from 1 to {}", port_text,
                     max_port));
  }
  StoreAddress store_address{
      .host = without_brackets(host),
      .port = *port,
      .source = fmt::format("MASTER_ADDR={} MASTER_PORT={}", host, port_text)};
  if (resolved.chosen && resolved.chosen->kind == launch::LauncherKind::elastic) {
    const bool space_above = *port <= max_port - ports_behind_torch;
    store_address.port =
        static_cast<std::uint16_t>(space_above ? *port + 1 : *port - ports_behind_torch);
    store_address.ports = ports_behind_torch;
  }
  return store_address;
}

struct Lookup {
  int error = 0;
  std::vector<SocketAddress> addresses;
};

Lookup look_up(const std::string& host, bool loopback_only) {
  Lookup result;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  result.error = ::getaddrinfo(loopback_only ? "localhost" : host.c_str(), nullptr, &hints, &list);
  if (result.error != 0) return result;
  for (const auto* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    const SocketAddress address(entry->ai_addr);
    const auto same = [&](const SocketAddress& other) { return other.text() == address.text(); };
    if (std::none_of(result.addresses.begin(), result.addresses.end(), same)) {
      result.addresses.push_back(address);
    }
  }
  ::freeaddrinfo(list);
  return result;
}

/// The resolver's timeouts are longer than many deadlines, so it runs in a thread that is abandoned
/// at the deadline.
std::optional<Lookup> look_up(const std::string& host, Deadline deadline) {
  auto promise = std::make_shared<std::promise<Lookup>>();
  auto future = promise->get_future();
  start_abandoned_thread("to look up a host's name",
                         [promise, host] { promise->set_value(look_up(host, false)); });
  while (future.wait_for(deadline.poll_interval()) != std::future_status::ready) {
    if (deadline.expired()) return std::nullopt;
  }
  return future.get();
}

bool is_numeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return false;
  ::freeaddrinfo(list);
  return true;
}

}  // namespace

std::string StoreAddress::text() const {
  const auto shown = on_one_host                           ? "localhost"
                     : host.find(':') == std::string::npos ? host
                                                           : "[" + host + "]";
  return ports == 1 ? fmt::format("{}:{}", shown, port)
                    : fmt::format("{}:{} to {}", shown, port, port + ports - 1);
}

StoreAddress find_store_address(const EnvironmentMap& environment, const launch::InitChoice& choice,
                                const launch::Resolved& resolved) {
  auto store_address =
      choice.url == "env://" ? from_master(environment, resolved) : from_url(choice);
  store_address.on_one_host = resolved.local_size == resolved.size;
  store_address.job = fmt::format("store {} {} {}", store_address.port,
                                  value_of(environment, "TORCHELASTIC_RUN_ID"),
                                  value_of(environment, "TORCHELASTIC_RESTART_COUNT"));
  // Ranks of two mpiruns started by torchrun may have the same rank numbers.
  if (resolved.chosen && resolved.chosen->kind == launch::LauncherKind::elastic &&
      !choice.is_explicit) {
    store_address.job += " " + launch::mpirun_identity(environment);
  }
  return store_address;
}

std::vector<SocketAddress> resolve_addresses(const StoreAddress& store_address, Deadline deadline) {
  std::vector<SocketAddress> addresses;
  if (store_address.on_one_host || store_address.host == "localhost") {
    addresses = look_up("localhost", true).addresses;
    std::erase_if(addresses, [](const SocketAddress& address) { return !address.is_loopback(); });
    if (addresses.empty()) addresses.push_back(SocketAddress::loopback_v4());
  } else if (is_numeric(store_address.host)) {
    addresses = look_up(store_address.host, false).addresses;
  } else {
    constexpr std::chrono::milliseconds pause{200};
    int error = EAI_AGAIN;
    while (addresses.empty()) {
      auto found = look_up(store_address.host, deadline);
      if (found) {
        error = found->error;
        addresses = std::move(found->addresses);
      }
      if (!addresses.empty()) break;
      if (deadline.expired()) {
        fail(
            fmt::format("{}: host {} cannot be resolved ({}): give an address, or a name that all "
                        "hosts can resolve",
                        store_address.source, store_address.host, ::gai_strerror(error)));
      }
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.remaining()));
    }
  }
  for (auto& address : addresses) address.set_port(store_address.port);
  return addresses;
}

bool StoreAddress::is_explicit() const {
  return host == "localhost" || is_numeric(host);
}

std::vector<SocketAddress> wildcard_addresses(std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  std::vector<SocketAddress> addresses{SocketAddress(reinterpret_cast<const sockaddr*>(&v4)),
                                       SocketAddress(reinterpret_cast<const sockaddr*>(&v6))};
  for (auto& address : addresses) address.set_port(port);
  return addresses;
}

bool is_loopback(const std::vector<SocketAddress>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const SocketAddress& address) { return address.is_loopback(); });
}

}  // namespace tutti::store
