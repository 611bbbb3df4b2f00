#include "doctor/reach.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "rendezvous/tcp_socket.hpp"
#include "rendezvous/unacknowledged.hpp"

namespace tutti::app::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_at_once = 64;
// The hosts of a job open fewer connections at once, so more come from elsewhere.
constexpr std::size_t max_connections = 256;
// Interval to poll whether large packets have been acknowledged: the kernel reports no event for
// it.
constexpr std::chrono::milliseconds poll_interval{5};

/// A connection attempt to one target.
struct Probe {
  const ProbeTarget* target;
  ReachFact* result;
  Descriptor socket;
  bool connected = false;
  std::string received;
  bool has_sent = false;  ///< large packets were sent; their acknowledgements must be polled
  bool over = false;
  std::chrono::milliseconds patience{};
  Clock::time_point until;

  void end(std::string failure) {
    result->failure = std::move(failure);
    socket.reset();
    over = true;
  }

  void start(std::chrono::milliseconds limit) {
    patience = limit;
    until = Clock::now() + patience;
    const auto& address = target->address;
    socket = rendezvous::make_client_socket(address.family());
    if (!socket) return end(errno_text(errno));
    if (::connect(socket.get(), address.get(), address.length()) != 0 && errno != EINPROGRESS) {
      return end(errno_text(errno));
    }
    if (rendezvous::is_connected_to_itself(socket.get())) {
      rendezvous::reset(socket);
      end("no process listens there");
    }
  }

  void proceed() {
    if (!connected) {
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) return end(errno_text(error));
      connected = true;
      return;
    }
    std::array<char, 64> buffer{};
    const auto got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return end(errno_text(errno));
    received.append(buffer.data(), static_cast<std::size_t>(got));
    if (got > 0 && received.size() < target->token.size()) return;
    if (received != target->token) return end("another program answers there");
    if (!has_sent) send_large();
  }

  /// Sends two segments of the connection's maximum segment size.
  void send_large() {
    int segment = 0;
    socklen_t length = sizeof segment;
    ::getsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &segment, &length);
    const std::string data(2 * static_cast<std::size_t>(std::max(segment, 1)), '\0');
    has_sent = ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL) > 0;
    if (!has_sent) end("");
    // Leaves time for some retransmissions.
    until = Clock::now() + 2 * patience;
  }

  void check_large() {
    int left = 0;
    if (::ioctl(socket.get(), SIOCOUTQ, &left) != 0 || left == 0) end("");
  }

  void give_up() {
    if (!has_sent) return end(connected ? "it accepts connections but sends nothing" : "no answer");
    if (const auto lost = rendezvous::find_unacknowledged(socket.get())) {
      result->lost_packet_bytes = lost->packet_bytes;
      result->is_ipv6 = lost->is_ipv6;
    }
    end("");
  }
};

/// Waits for an event on any probe and handles it. Returns false if all probes are over.
bool step(std::span<Probe> probes) {
  const auto now = Clock::now();
  auto first_end = Clock::time_point::max();
  std::vector<pollfd> polled;
  std::vector<Probe*> waiting;
  for (auto& probe : probes) {
    if (!probe.over && probe.has_sent) probe.check_large();
    if (!probe.over && now >= probe.until) probe.give_up();
    if (probe.over) continue;
    first_end = std::min(first_end, probe.has_sent ? now + poll_interval : probe.until);
    const auto wanted = probe.connected ? POLLIN : POLLOUT;
    const auto events = static_cast<short>(probe.has_sent ? 0 : wanted);
    polled.push_back({.fd = probe.socket.get(), .events = events, .revents = 0});
    waiting.push_back(&probe);
  }
  if (waiting.empty()) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first_end - now);
  if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) <= 0) return true;
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    // After send_large() the only event is the server closing the connection.
    waiting[i]->has_sent ? waiting[i]->end("") : waiting[i]->proceed();
  }
  return true;
}

void run(std::span<Probe> probes, std::chrono::milliseconds patience) {
  for (auto& probe : probes) probe.start(patience);
  while (step(probes)) {
  }
}

}  // namespace

ProbeServer::ProbeServer(std::vector<rendezvous::Listener> listeners, std::string token)
    : listeners_(std::move(listeners)),
      token_(std::move(token)),
      thread_(start_quiet_thread("that answers other ranks", [this] { answer(); })) {}

ProbeServer::~ProbeServer() {
  stop_.signal();
  thread_.join();
}

void ProbeServer::answer() {
  while (true) {
    std::vector<pollfd> polled{{.fd = stop_.fd(), .events = POLLIN, .revents = 0}};
    for (const auto& listener : listeners_) {
      polled.push_back({.fd = listener.socket.get(), .events = POLLIN, .revents = 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if ((polled[i].revents & POLLIN) == 0) continue;
      Descriptor connection(
          ::accept4(polled[i].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!connection) {
        // Out of descriptors: close the oldest connection.
        if (!connections_.empty()) connections_.pop_front();
        continue;
      }
      // A new socket buffers 16 bytes without blocking. An error means that the peer has
      // disconnected.
      (void)::send(connection.get(), token_.data(), token_.size(), MSG_NOSIGNAL);
      connections_.push_back(std::move(connection));
      if (connections_.size() > max_connections) connections_.pop_front();
    }
  }
}

std::vector<ReachFact> try_targets(const std::vector<ProbeTarget>& targets,
                                   std::chrono::milliseconds patience) {
  std::vector<ReachFact> results;
  results.reserve(targets.size());
  for (const auto& target : targets) {
    results.push_back({.host = target.host, .address = target.address.text()});
  }
  for (std::size_t begin = 0; begin < targets.size(); begin += max_at_once) {
    std::vector<Probe> probes;
    for (auto i = begin; i < std::min(begin + max_at_once, targets.size()); ++i) {
      probes.push_back({.target = &targets[i], .result = &results[i], .socket = Descriptor()});
    }
    run(probes, patience);
  }
  return results;
}

}  // namespace tutti::app::doctor
