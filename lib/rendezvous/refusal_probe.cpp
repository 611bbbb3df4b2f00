#include "rendezvous/refusal_probe.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/tcp_socket.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::chrono::milliseconds max_probe_pause{30000};
constexpr int refused_rounds_needed = 4;

}  // namespace

RefusalProbe::RefusalProbe(Reactor& reactor, std::vector<SocketAddress> candidates,
                           std::vector<Interface> sources, std::function<void()> on_refused,
                           std::chrono::milliseconds round)
    : reactor_(reactor),
      candidates_(std::move(candidates)),
      sources_(std::move(sources)),
      on_refused_(std::move(on_refused)),
      sockets_(candidates_.size()),
      round_(round),
      pause_(round) {
  begin_round();
}

RefusalProbe::~RefusalProbe() {
  reactor_.cancel(timer_);
  close_sockets();
}

void RefusalProbe::begin_round() {
  refused_ = 0;
  accepted_ = false;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (dial(i)) ++refused_;
  }
  timer_ = reactor_.after(pause_, [this] { end_round(); });
}

bool RefusalProbe::dial(std::size_t candidate) {
  const auto& address = candidates_[candidate];
  auto& socket = sockets_[candidate];
  socket = make_client_socket(address.family());
  if (!socket) return false;
  if (bind_source(socket.get(), sources_, address) != 0) {
    // An interface that is down proves nothing about the rank.
    socket.reset();
    return false;
  }
  if (::connect(socket.get(), address.get(), address.length()) == 0) {
    // A connection to itself means that no process listens there.
    const bool refused = is_connected_to_itself(socket.get());
    accepted_ = accepted_ || !refused;
    reset(socket);
    return refused;
  }
  if (errno != EINPROGRESS) {
    const bool refused = errno == ECONNREFUSED;
    socket.reset();
    return refused;
  }
  reactor_.add(socket.get(), EPOLLOUT, [this, candidate](std::uint32_t) {
    auto& done = sockets_[candidate];
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(done.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    const bool nobody = error == 0 && is_connected_to_itself(done.get());
    if (error == ECONNREFUSED || nobody) ++refused_;
    accepted_ = accepted_ || (error == 0 && !nobody);
    reactor_.remove(done.get());
    done.reset();
  });
  return false;
}

void RefusalProbe::end_round() {
  close_sockets();
  rounds_ = !candidates_.empty() && refused_ == candidates_.size() ? rounds_ + 1 : 0;
  pause_ = accepted_ ? std::min(2 * pause_, max_probe_pause) : round_;
  if (rounds_ < refused_rounds_needed) return begin_round();
  const auto on_refused = std::move(on_refused_);
  on_refused();  // may destroy this
}

void RefusalProbe::close_sockets() {
  for (auto& socket : sockets_) {
    if (!socket) continue;
    reactor_.remove(socket.get());
    socket.reset();
  }
}

}  // namespace tutti::rendezvous
