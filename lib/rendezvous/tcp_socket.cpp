#include "rendezvous/tcp_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "rendezvous/address.hpp"
#include "rendezvous/unacknowledged.hpp"

namespace tutti::rendezvous {
namespace {

constexpr int on = 1;

}  // namespace

Descriptor make_client_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (socket) set_reuse_address(socket.get());
  socket.close_on_fork();
  return socket;
}

void set_reuse_address(int socket) {
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

void set_no_delay(int socket) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void limit_packet_size(int socket, int family) {
  constexpr int headers_v4 = 40;
  constexpr int headers_v6 = 60;
  // The SYN announces the MSS to the peer.
  const int segment =
      static_cast<int>(small_packet_bytes) - (family == AF_INET6 ? headers_v6 : headers_v4);
  ::setsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
}

bool is_connected_to_itself(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof own;
  socklen_t peer_length = sizeof peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) {
    return false;
  }
  const SocketAddress here(reinterpret_cast<const sockaddr*>(&own));
  const SocketAddress there(reinterpret_cast<const sockaddr*>(&peer));
  return here.port() == there.port() && here.is_same_host(there);
}

void reset(Descriptor& socket) {
  const linger nothing_left{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &nothing_left, sizeof nothing_left);
  socket.reset();
}

}  // namespace tutti::rendezvous
