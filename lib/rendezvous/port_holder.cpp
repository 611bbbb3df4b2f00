#include "rendezvous/port_holder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti::rendezvous {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number number{};
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number, base);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Parses "0100007F:7531": 32-bit words in host byte order, then the port, both hexadecimal.
std::optional<SocketAddress> address_in(std::string_view text) {
  constexpr std::size_t word = 8;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = number_in<std::uint16_t>(text.substr(colon + 1), 16);
  std::array<std::uint32_t, 4> words{};
  const auto count = colon / word;
  if (!port || colon % word != 0 || (count != 1 && count != words.size())) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = number_in<std::uint32_t>(text.substr(i * word, word), 16);
    if (!value) return std::nullopt;
    words[i] = *value;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  std::memcpy(&v6.sin6_addr, words.data(), sizeof v6.sin6_addr);
  SocketAddress result(reinterpret_cast<const sockaddr*>(&v6));
  if (const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr); count == 1 || is_mapped) {
    sockaddr_storage v4{};
    auto& address = reinterpret_cast<sockaddr_in&>(v4);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = count == 1 ? words[0] : words[3];
    result = SocketAddress(reinterpret_cast<const sockaddr*>(&v4));
  }
  result.set_port(*port);
  return result;
}

bool is_any(const SocketAddress& address) {
  const auto text = address.host_text();
  return text == "0.0.0.0" || text == "::";
}

/// True if sockets at both addresses conflict.
bool overlap(const SocketAddress& one, const SocketAddress& other) {
  return one.port() == other.port() && (is_any(one) || is_any(other) || one.is_same_host(other));
}

/// "pid 4711 (python3)"; "a program of user 1000" if this process may not see it.
std::string owner_of(const ListedSocket& socket) {
  const auto wanted = fmt::format("socket:[{}]", socket.inode);
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const auto pid = process.path().filename().string();
    if (!number_in<int>(pid)) continue;
    for (const auto& file : std::filesystem::directory_iterator(process.path() / "fd", error)) {
      if (std::filesystem::read_symlink(file.path(), error).string() != wanted) continue;
      auto name = content_of((process.path() / "comm").string());
      if (name.ends_with('\n')) name.pop_back();
      return fmt::format("pid {} ({})", pid, name);
    }
  }
  return fmt::format("a program of user {}", socket.uid);
}

}  // namespace

std::vector<ListedSocket> parse_tcp_table(std::string_view text) {
  std::vector<ListedSocket> sockets;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::array<std::string, 10> word;
    for (auto& it : word) words >> it;
    const auto local = address_in(word[1]);
    const auto peer = address_in(word[2]);
    const auto state = number_in<unsigned>(word[3], 16);
    const auto uid = number_in<unsigned>(word[7]);
    const auto inode = number_in<std::uint64_t>(word[9]);
    if (!local || !peer || !state || !uid || !inode) continue;
    constexpr unsigned time_wait = 6;  // the kernel's numbers
    constexpr unsigned listening = 10;
    using State = ListedSocket::State;
    sockets.push_back({.local = *local,
                       .peer = *peer,
                       .state = *state == listening   ? State::listening
                                : *state == time_wait ? State::time_wait
                                                      : State::other,
                       .uid = *uid,
                       .inode = *inode});
  }
  return sockets;
}

const ListedSocket* find_holder(const std::vector<ListedSocket>& sockets,
                                const SocketAddress& address) {
  const auto weight = [](const ListedSocket& socket) {
    using State = ListedSocket::State;
    if (socket.state == State::listening) return 3;
    return socket.state == State::other ? 2 : 1;
  };
  const ListedSocket* best = nullptr;
  for (const auto& socket : sockets) {
    if (!overlap(socket.local, address)) continue;
    if (best == nullptr || weight(socket) > weight(*best)) best = &socket;
  }
  return best;
}

std::string describe_holder(const SocketAddress& address) {
  auto sockets = parse_tcp_table(content_of("/proc/net/tcp"));
  const auto more = parse_tcp_table(content_of("/proc/net/tcp6"));
  sockets.insert(sockets.end(), more.begin(), more.end());
  const auto* const holder = find_holder(sockets, address);
  if (holder == nullptr) return "another program has the port";
  switch (holder->state) {
    case ListedSocket::State::listening:
      return owner_of(*holder) + " listens there";
    case ListedSocket::State::time_wait:
      return fmt::format(
          "a connection to {} that is closed holds the port for up to a minute (TIME-WAIT)",
          holder->peer.text());
    case ListedSocket::State::other:
      break;
  }
  return fmt::format("a connection of {} to {} has the port",
                     holder->inode == 0 ? "a program that has ended" : owner_of(*holder),
                     holder->peer.text());
}

PortRange ephemeral_ports() {
  std::istringstream text(content_of("/proc/sys/net/ipv4/ip_local_port_range"));
  PortRange range;
  return text >> range.first >> range.last ? range : PortRange();
}

bool is_reserved(std::string_view reserved, int port) {
  while (!reserved.empty()) {
    const auto comma = std::min(reserved.find(','), reserved.size());
    auto entry = reserved.substr(0, comma);
    while (!entry.empty() && entry.back() == '\n') entry.remove_suffix(1);
    const auto dash = entry.find('-');
    const auto first = number_in<int>(entry.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : number_in<int>(entry.substr(dash + 1));
    if (first && last && port >= *first && port <= *last) return true;
    reserved.remove_prefix(std::min(comma + 1, reserved.size()));
  }
  return false;
}

std::string ephemeral_port_warning(int port) {
  const auto range = ephemeral_ports();
  if (!range.is_set() || port < range.first || port > range.last ||
      is_reserved(content_of("/proc/sys/net/ipv4/ip_local_reserved_ports"), port)) {
    return {};
  }
  return fmt::format(
      "port {} is one of {}, which the kernel gives to outgoing connections "
      "(net.ipv4.ip_local_port_range)",
      port, range.text());
}

}  // namespace tutti::rendezvous
