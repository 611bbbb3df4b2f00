#include "congestion.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/system_error.hpp"
#include "tutti/error.hpp"

namespace tutti::transport {
namespace {

/// bbr misreads a connection that is idle between chunks, as in ring algorithms, as one on a slow
/// link. If it is only the system's default, selects the first of these that this process may use.
void avoid_bbr(int fd) {
  std::array<char, 16> name{};
  socklen_t length = name.size() - 1;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) != 0) return;
  if (!std::string_view(name.data()).starts_with("bbr")) return;
  for (const std::string_view other : {"cubic", "reno"}) {
    if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, other.data(),
                     static_cast<socklen_t>(other.size())) == 0) {
      return;
    }
  }
}

void set_congestion(int fd, const std::string& congestion) {
  if (!congestion.empty() && ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                          static_cast<socklen_t>(congestion.size())) != 0) {
    const int number = errno;
    throw Error(ErrorCode::usage, "TUTTI_CONGESTION=" + congestion +
                                      " can't be used here: " + errno_text(number) +
                                      "; see /proc/sys/net/ipv4/tcp_allowed_congestion_control");
  }
}

}  // namespace

void tune_socket(int fd, const std::string& congestion) {
  if (congestion.empty()) avoid_bbr(fd);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  set_congestion(fd, congestion);
}

void limit_unsent(int fd) {
  // Measured between 1 Gbit/s and unshaped links: replies wait less, and both directions of a
  // connection are faster; with less, a sender waits for its core.
  constexpr int unsent_bytes = 128 << 10;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
}

void require_congestion(const std::string& congestion) {
  if (congestion.empty()) return;
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket) set_congestion(socket.get(), congestion);
}

}  // namespace tutti::transport
