#include "doctor/reach.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/quiet_thread.hpp"
#include "base/system_error.hpp"
#include "rendezvous/tcp_socket.hpp"

namespace tutti::app::doctor {
namespace {

constexpr std::size_t most_at_once = 64;

/// A connection that is being tried.
struct Attempt {
  const Target* target;
  ReachFact* result;
  Descriptor socket;
  bool connected = false;
  std::string heard;
  bool over = false;

  void end(std::string failure) {
    result->failure = std::move(failure);
    socket.reset();
    over = true;
  }

  void start() {
    const auto& address = target->address;
    socket = rendezvous::make_dialing_socket(address.family());
    if (!socket) return end(errno_text(errno));
    if (::connect(socket.get(), address.get(), address.length()) != 0 && errno != EINPROGRESS) {
      return end(errno_text(errno));
    }
    if (rendezvous::is_connected_to_itself(socket.get())) {
      rendezvous::reset(socket);
      end("nobody listens there");
    }
  }

  void go_on() {
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
    heard.append(buffer.data(), static_cast<std::size_t>(got));
    if (got > 0 && heard.size() < target->token.size()) return;
    end(heard == target->token ? "" : "somebody else answers there");
  }
};

void run(std::span<Attempt> attempts, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (auto& attempt : attempts) attempt.start();
  while (true) {
    std::vector<pollfd> polled;
    std::vector<Attempt*> waiting;
    for (auto& attempt : attempts) {
      if (attempt.over) continue;
      const short events = attempt.connected ? POLLIN : POLLOUT;
      polled.push_back({.fd = attempt.socket.get(), .events = events, .revents = 0});
      waiting.push_back(&attempt);
    }
    if (waiting.empty()) return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      for (auto* attempt : waiting) {
        attempt->end(attempt->connected ? "it takes connections, but stays silent" : "no answer");
      }
      return;
    }
    if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) waiting[i]->go_on();
    }
  }
}

}  // namespace

Door::Door(std::vector<rendezvous::Listener> listeners, std::string token)
    : listeners_(std::move(listeners)),
      token_(std::move(token)),
      thread_(start_quiet_thread("that answers other ranks", [this] { answer(); })) {}

Door::~Door() {
  stop_.signal();
  thread_.join();
}

void Door::answer() {
  while (true) {
    std::vector<pollfd> polled{{.fd = stop_.fd(), .events = POLLIN, .revents = 0}};
    for (const auto& listener : listeners_) {
      polled.push_back({.fd = listener.socket.get(), .events = POLLIN, .revents = 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if ((polled[i].revents & POLLIN) == 0) continue;
      const Descriptor guest(
          ::accept4(polled[i].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      // A fresh socket takes 16 bytes at once; who is gone already misses nothing.
      if (guest) (void)::send(guest.get(), token_.data(), token_.size(), MSG_NOSIGNAL);
    }
  }
}

std::vector<ReachFact> try_targets(const std::vector<Target>& targets,
                                   std::chrono::milliseconds patience) {
  std::vector<ReachFact> results;
  for (const auto& target : targets) {
    results.push_back({.host = target.host, .address = target.address.text()});
  }
  for (std::size_t begin = 0; begin < targets.size(); begin += most_at_once) {
    std::vector<Attempt> attempts;
    for (auto i = begin; i < std::min(begin + most_at_once, targets.size()); ++i) {
      attempts.push_back({.target = &targets[i], .result = &results[i], .socket = Descriptor()});
    }
    run(attempts, patience);
  }
  return results;
}

}  // namespace tutti::app::doctor
