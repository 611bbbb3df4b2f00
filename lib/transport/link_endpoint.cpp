#include "transport/link_endpoint.hpp"

#include <array>
#include <cerrno>

namespace tutti::transport {
namespace {

constexpr std::byte by_socket{'s'};
constexpr std::byte by_rings{'r'};

}  // namespace

LinkEndpoint LinkEndpoint::dialed(rendezvous::SecureSocket socket,
                                  std::unique_ptr<LinkMemory> memory) {
  LinkEndpoint endpoint(std::move(socket));
  auto choice = memory ? by_rings : by_socket;
  const std::array<iovec, 1> part{{{&choice, 1}}};
  // A new socket takes a byte, or is broken, which the first read or write finds out.
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
  endpoint.settled_ = false;
  return endpoint;
}

void LinkEndpoint::use_rings() {
  auto& link = *memory_;
  auto forth = link.forth();
  auto back = link.back();
  auto& in = dialed_ ? back : forth;
  auto& out = dialed_ ? forth : back;
  in_.emplace(*in.state, in.bytes);
  if (dialed_) {
    out_.emplace(*out.state, out.bytes, LinkMemory::first_bytes,
                 [&link](std::size_t bytes) { return link.take_forth(bytes); });
  } else {
    out_.emplace(*out.state, out.bytes);
  }
  has_rings_ = true;
}

bool LinkEndpoint::settle() {
  std::byte choice{};
  const std::array<iovec, 1> part{{{&choice, 1}}};
  const auto got = socket_.read(part, false);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  if (got == 1 && choice == by_rings && memory_) {
    use_rings();
  } else if (got == 1 && choice == by_socket) {
    memory_.reset();
  } else {
    if (got == 1) errno = EPROTO;
    if (got == 0) errno = ECONNRESET;
    return false;
  }
  settled_ = true;
  return true;
}

ssize_t LinkEndpoint::write(std::span<const iovec> parts, bool streaming) {
  if (!settled_) {
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
  // Not waiting until the peer sees what was written: see longest_unseen.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_relaxed) == 0 || asleep.exchange(0) == 0) return;
  std::byte doorbell{};
  const std::array<iovec, 1> part{{{&doorbell, 1}}};
  // A socket that takes no more has bytes that wake the peer already.
  static_cast<void>(socket_.write(part));
}

}  // namespace tutti::transport
