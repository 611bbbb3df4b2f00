#include "rendezvous/unacknowledged.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <vector>

#include "rendezvous/address.hpp"

namespace tutti::rendezvous {
namespace {

// A single loss is normal; consecutive ones take 0.6 s and more.
constexpr std::uint32_t min_retransmissions = 2;
constexpr std::uint32_t tcp_header_bytes = 20;
constexpr std::uint32_t timestamp_bytes = 12;
constexpr std::uint32_t icmp_header_bytes = 8;

constexpr std::uint32_t ip_header_bytes(bool is_ipv6) {
  return is_ipv6 ? 40 : 20;
}

int outgoing_bytes(int socket, unsigned long request) {
  int bytes = 0;
  return ::ioctl(socket, request, &bytes) == 0 ? bytes : 0;
}

SocketAddress other_end(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

struct Lost {
  Unacknowledged data;
  SocketAddress to;
};

/// Most bytes first.
std::vector<Lost> find_all() {
  std::vector<Lost> all;
  std::error_code error;
  // Must not throw: the caller is building an error.
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    const auto name = entry->path().filename().string();
    int socket = -1;
    std::from_chars(name.data(), name.data() + name.size(), socket);
    if (const auto data = find_unacknowledged(socket)) all.push_back({*data, other_end(socket)});
  }
  std::sort(all.begin(), all.end(),
            [](const Lost& one, const Lost& other) { return one.data.bytes > other.data.bytes; });
  return all;
}

}  // namespace

std::optional<Unacknowledged> find_unacknowledged(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  if (info.tcpi_unacked == 0 || info.tcpi_retransmits < min_retransmissions) return std::nullopt;
  const int sent = outgoing_bytes(socket, SIOCOUTQ) - outgoing_bytes(socket, SIOCOUTQNSD);
  if (sent <= 0) return std::nullopt;
  int domain = AF_INET;
  length = sizeof domain;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length);
  Unacknowledged lost;
  lost.bytes = static_cast<std::uint64_t>(sent);
  lost.times = info.tcpi_retransmits;
  lost.is_ipv6 = domain == AF_INET6;
  const bool has_timestamps = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
  lost.packet_bytes = std::min(static_cast<std::uint32_t>(sent), info.tcpi_snd_mss) +
                      ip_header_bytes(lost.is_ipv6) + tcp_header_bytes +
                      (has_timestamps ? timestamp_bytes : 0);
  return lost;
}

std::string describe(const Unacknowledged& lost, const std::string& from, const std::string& to) {
  return fmt::format(
      "{} bytes that {} has sent to {} are not acknowledged after {} retransmissions", lost.bytes,
      from, to, lost.times);
}

std::string mtu_remedy(const Unacknowledged& lost, const std::string& from, const std::string& to) {
  const auto headers = ip_header_bytes(lost.is_ipv6) + icmp_header_bytes;
  return fmt::format(
      "packets of {} bytes may be larger than the MTU of a link on the way: try ping -M do -s {} "
      "{} on {}, and where it gets no answer, lower the MTU of the hosts' interfaces",
      lost.packet_bytes, lost.packet_bytes - std::min(lost.packet_bytes, headers), to, from);
}

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string describe_unacknowledged_data() {
  constexpr std::size_t max_listed = 3;
  const auto all = find_all();
  if (all.empty()) return {};
  const auto host = own_host();
  std::vector<std::string> each;
  for (const auto& lost : all) {
    if (each.size() < max_listed) each.push_back(describe(lost.data, host, lost.to.text()));
  }
  const auto large =
      std::find_if(all.begin(), all.end(), [](const Lost& lost) { return lost.data.is_large(); });
  return fmt::format("; {}{}", fmt::join(each, "; "),
                     large == all.end()
                         ? std::string()
                         : ": " + mtu_remedy(large->data, host, large->to.host_text()));
}

}  // namespace tutti::rendezvous
