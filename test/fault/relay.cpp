#include "relay.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <list>
#include <stdexcept>

#include "rendezvous/peer_info.hpp"

namespace tutti::test {
namespace {

using rendezvous::PeerInfo;
using rendezvous::SocketAddress;

constexpr std::size_t kind_at = 6;  // offset of the link kind in a proof, after magic and version

SocketAddress loopback(std::uint16_t port) {
  auto address = SocketAddress::loopback_v4();
  address.set_port(port);
  return address;
}

void send_all(int fd, const std::vector<std::byte>& bytes, std::size_t count) {
  for (std::size_t sent = 0; sent < count;) {
    const auto done = ::send(fd, bytes.data() + sent, count - sent, MSG_NOSIGNAL);
    if (done < 0 && errno != EINTR) return;  // the other end detects it
    if (done > 0) sent += static_cast<std::size_t>(done);
  }
}

}  // namespace

std::vector<Bytes> RelayBootstrap::all_gather(const Bytes& mine, Deadline deadline) {
  auto advertised = mine;
  if (auto info = PeerInfo::decode(mine); info && !info->addresses.empty()) {
    for (const auto& address : info->addresses) {
      if (address.is_same_host(SocketAddress::loopback_v4())) {
        rank_.say(std::to_string(address.port()));
      }
    }
    info->addresses = {loopback(ports_[static_cast<std::size_t>(rank())])};
    advertised = info->encode();
  }
  return rank_.bootstrap().all_gather(advertised, deadline);
}

Relay::Relay(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto address = loopback(0);
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    if (::bind(listener.get(), address.get(), address.length()) != 0 ||
        ::listen(listener.get(), 64) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      throw std::runtime_error("the relay can't listen at loopback");
    }
    ports_.push_back(ntohs(bound.sin_port));
    listeners_.push_back(std::move(listener));
  }
}

Relay::~Relay() {
  stop();
}

void Relay::start(Job& job, Modify modify) {
  modify_ = std::move(modify);
  thread_ = std::thread([this, &job] { run(job); });
}

void Relay::stop() {
  is_over_ = true;
  if (thread_.joinable()) thread_.join();
}

void Relay::run(Job& job) {
  std::list<Direction> directions;  // two per connection, the initiator's first
  while (!is_over_) {
    std::vector<pollfd> waits;
    for (const auto& listener : listeners_) waits.push_back({listener.get(), POLLIN, 0});
    for (const auto& direction : directions) waits.push_back({direction.from.get(), POLLIN, 0});
    if (::poll(waits.data(), waits.size(), 5) <= 0) continue;
    auto ready = waits.begin() + static_cast<std::ptrdiff_t>(listeners_.size());
    for (auto direction = directions.begin(); direction != directions.end(); ++ready) {
      if (ready->revents != 0 && !forward(*direction)) {
        direction = directions.erase(direction);
      } else {
        ++direction;
      }
    }
    for (std::size_t rank = 0; rank < listeners_.size(); ++rank) {
      if (waits[rank].revents == 0) continue;
      Descriptor here(::accept4(listeners_[rank].get(), nullptr, nullptr, SOCK_CLOEXEC));
      Descriptor there(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const auto port = static_cast<std::uint16_t>(std::stoi(job.said(static_cast<int>(rank))));
      const auto target = loopback(port);
      if (::connect(there.get(), target.get(), target.length()) != 0) continue;
      ++connections_;
      Descriptor here_too(::dup(here.get()));
      Descriptor there_too(::dup(there.get()));
      directions.push_back({std::move(here), std::move(there), {}, 0});
      // The responder sends a hello instead of a proof, so this direction has no link kind.
      directions.push_back({std::move(there_too), std::move(here_too), {}, 0});
    }
  }
}

/// Returns false when one end is closed.
bool Relay::forward(Direction& direction) {
  std::vector<std::byte> bytes(std::size_t{256} << 10);
  const auto got = ::recv(direction.from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    ::shutdown(direction.to.get(), got == 0 ? SHUT_WR : SHUT_RDWR);
    return false;
  }
  bytes.resize(static_cast<std::size_t>(got));
  if (direction.start.size() <= kind_at)
    direction.start.insert(direction.start.end(), bytes.begin(), bytes.end());
  const auto kind = direction.start.size() > kind_at
                        ? static_cast<rendezvous::LinkKind>(direction.start[kind_at])
                        : rendezvous::LinkKind{};
  if (kind == rendezvous::LinkKind::control || kind == rendezvous::LinkKind::data) {
    modify_(kind, direction.position, bytes);
  }
  direction.position += bytes.size();
  send_all(direction.to.get(), bytes, bytes.size());
  return true;
}

}  // namespace tutti::test
