#include "transport/link_endpoint.hpp"

#include <array>
#include <cerrno>

namespace tutti::transport {
namespace {

constexpr std::byte choose_socket{'s'};
constexpr std::byte choose_rings{'r'};

}  // namespace

LinkEndpoint LinkEndpoint::dialed(rendezvous::SecureSocket socket,
                                  std::unique_ptr<LinkMemory> memory) {
  LinkEndpoint endpoint(std::move(socket));
  auto choice = memory ? choose_rings : choose_socket;
  const std::array<iovec, 1> part{{{&choice, 1}}};
  // A new socket has buffer space, or is broken: the next read or write reports that.
  static_cast<void>(endpoint.socket_.write(part));
  endpoint.dialed_ = true;
  endpoint.memory_ = std::move(memory);
  if (endpoint.memory_) endpoint.use_rings();
  return endpoint;
}

LinkEndpoint LinkEndpoint::accepted(rendezvous::SecureSocket socket,
                                    std::unique_ptr<LinkMemory> memory) {
  LinkEndpoint endpoint(std::move(socket));
  endpoint.memory_ = std::move(memory);
  endpoint.negotiated_ = false;
  return endpoint;
}

void LinkEndpoint::use_rings() {
  auto& link = *memory_;
  auto data_ring = link.data_ring();
  auto reply_ring = link.reply_ring();
  auto& in = dialed_ ? reply_ring : data_ring;
  auto& out = dialed_ ? data_ring : reply_ring;
  in_.emplace(*in.state, in.bytes);
  if (dialed_) {
    out_.emplace(*out.state, out.bytes, LinkMemory::initial_bytes,
                 [&link](std::size_t bytes) { return link.grow_data_ring(bytes); });
  } else {
    out_.emplace(*out.state, out.bytes);
  }
  has_rings_ = true;
}

bool LinkEndpoint::negotiate() {
  std::byte choice{};
  const std::array<iovec, 1> part{{{&choice, 1}}};
  const auto got = socket_.read(part, false);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  if (got == 1 && choice == choose_rings && memory_) {
    use_rings();
  } else if (got == 1 && choice == choose_socket) {
    memory_.reset();
  } else {
    if (got == 1) errno = EPROTO;
    if (got == 0) errno = ECONNRESET;
    return false;
  }
  negotiated_ = true;
  return true;
}

ssize_t LinkEndpoint::write(std::span<const iovec> parts, bool streaming) {
  if (!negotiated_) {
    errno = EAGAIN;
    return -1;
  }
  if (!has_rings_) return socket_.write(parts);
  if (closed_) {
    errno = EPIPE;
    return -1;
  }
  const auto written = out_->write(parts, streaming);
  if (written > 0) {
    wake_peer();
    return static_cast<ssize_t>(written);
  }
  errno = EAGAIN;
  return -1;
}

ssize_t LinkEndpoint::read(std::span<const iovec> parts, bool ahead) {
  if (!has_rings_) return socket_.read(parts, ahead);
  const auto got = in_->read(parts);
  if (got > 0) {
    wake_peer();
    return static_cast<ssize_t>(got);
  }
  if (closed_) return 0;
  errno = EAGAIN;
  return -1;
}

void LinkEndpoint::drain_doorbell() {
  std::array<std::byte, 64> bytes;
  const std::array<iovec, 1> part{{{bytes.data(), bytes.size()}}};
  while (!closed_) {
    const auto got = socket_.read(part, false);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) closed_ = true;
  }
}

void LinkEndpoint::wake_peer() {
  auto& asleep = dialed_ ? memory_->receiver_asleep() : memory_->sender_asleep();
  // No fence: see max_store_delay.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_relaxed) == 0 || asleep.exchange(0) == 0) return;
  std::byte doorbell{};
  const std::array<iovec, 1> part{{{&doorbell, 1}}};
  // If the socket is full, its bytes wake the peer.
  static_cast<void>(socket_.write(part));
}

}  // namespace tutti::transport
