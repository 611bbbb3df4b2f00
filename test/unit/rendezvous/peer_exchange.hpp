#pragma once

#include <sys/socket.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/acceptor.hpp"
#include "rendezvous/dialer.hpp"
#include "support/secret.hpp"

/// Real sockets on loopback, all driven by one reactor in the test's own thread.
namespace tutti::rendezvous::test {

using namespace std::chrono_literals;

/// Runs the reactor until `is_over`; false after `limit`.
inline bool run_until(Reactor& reactor, const std::function<bool()>& is_over,
                      std::chrono::milliseconds limit = 3s) {
  const auto deadline = Deadline::after(limit);
  while (!is_over()) {
    if (deadline.expired()) return false;
    reactor.run_once(std::min<Reactor::Clock::duration>(deadline.remaining(), 10ms));
  }
  return true;
}

inline Membership member(int rank, unsigned secret = 0, int size = 4) {
  return {.secret = tutti::test::known_secret(secret), .epoch = 0, .rank = rank, .size = size};
}

/// A rank that listens on loopback.
struct Host {
  Membership self;
  std::vector<std::string> log_lines;
  Log log{LogLevel::info, [this](LogLevel, const std::string& line) { log_lines.push_back(line); }};
  SocketAddress address;
  std::vector<Connection> connections;
  std::pair<int, LinkKind> unexpected{-1, LinkKind::data};  ///< a link that it rejects
  std::optional<Acceptor> acceptor;

  Host(Reactor& reactor, const Membership& membership) : self(membership) {
    auto listeners = open_listeners({});
    address = listeners.at(0).address;
    acceptor.emplace(
        reactor, self, std::move(listeners), log,
        [this](int from, LinkKind kind) { return unexpected != std::pair(from, kind); },
        [this](Connection connection) { connections.push_back(std::move(connection)); });
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
};

/// A rank that dials, and the result.
struct Caller {
  Membership self;
  Dialer dialer;
  int calls = 0;
  std::optional<Connection> connection;
  std::string failure;

  Caller(Reactor& reactor, const Membership& membership)
      : self(membership), dialer(reactor, self) {}
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void dial(int peer, std::vector<SocketAddress> candidates, std::chrono::milliseconds limit,
            LinkKind kind = LinkKind::data) {
    dialer.dial(peer, kind, std::move(candidates), Deadline::after(limit),
                [this](std::optional<Connection> made, const std::string& reason) {
                  ++calls;
                  connection = std::move(made);
                  failure = reason;
                });
  }
  [[nodiscard]] bool is_over() const { return calls > 0; }
};

/// A plain client socket driven by the test.
class Visitor {
 public:
  explicit Visitor(const SocketAddress& address)
      : socket_(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (::connect(socket_.get(), address.get(), address.length()) != 0) {
      throw std::runtime_error("can't connect to loopback");
    }
  }
  void say(std::span<const std::byte> bytes) const {
    // The other side may have closed it already, which some tests expect.
    [[maybe_unused]] const auto sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void say(std::string_view text) const { say(std::as_bytes(std::span(text))); }

  /// Reads available data; true once the other side has closed the socket.
  [[nodiscard]] bool is_dropped() {
    std::array<std::byte, 256> buffer{};
    while (true) {
      const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got > 0) {
        heard_ += static_cast<std::size_t>(got);
      } else {
        return got == 0 || (errno != EAGAIN && errno != EINTR);
      }
    }
  }
  /// Bytes received so far by is_dropped().
  [[nodiscard]] std::size_t heard() const { return heard_; }

 private:
  Descriptor socket_;
  std::size_t heard_ = 0;
};

}  // namespace tutti::rendezvous::test
