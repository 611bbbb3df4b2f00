#include "control/control_link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tutti::control {
namespace {

constexpr std::size_t length_bytes = 4;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

void keep_alive(int fd, std::chrono::seconds limit) {
  // One probe after a third of the limit and two more; the connection ends when the third is
  // unanswered.
  const int third = std::max(1, static_cast<int>(limit.count()) / 3);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, third);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, third);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
  // Limit for unacknowledged data. The kernel checks it only at retransmissions, up to a second
  // late.
  const int limit_ms = static_cast<int>(limit.count()) * 1000;
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, std::max(limit_ms / 2, limit_ms - 1000));
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

ControlLink::ControlLink(Reactor& reactor, rendezvous::SecureSocket socket,
                         std::chrono::seconds keepalive, Events events)
    : reactor_(reactor), socket_(std::move(socket)), events_(std::move(events)) {
  keep_alive(socket_.get(), keepalive);
  reactor_.add(socket_.get(), EPOLLIN, [this](std::uint32_t ready) { on_ready(ready); });
}

ControlLink::~ControlLink() {
  if (open_) reactor_.remove(socket_.get());
}

void ControlLink::send(const Bytes& message) {
  if (!open_) return;
  ByteWriter frame;
  frame.put(static_cast<std::uint32_t>(message.size())).put(std::span(message));
  const bool idle = outgoing_.empty();
  outgoing_.insert(outgoing_.end(), frame.bytes().begin(), frame.bytes().end());
  if (idle) write();
}

void ControlLink::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) write();
  // Errors and hang-ups are found by reading, after all data before them.
  if (open_ && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read();
}

void ControlLink::read() {
  std::array<std::byte, 16384> buffer;
  int end = -1;  // -1: still open, else the errno that ended it
  while (end < 0) {
    const std::array<iovec, 1> part{{{buffer.data(), buffer.size()}}};
    // No read-ahead: unread data must stay in the socket, where epoll reports it. The buffer holds
    // a whole record.
    const auto got = socket_.read(part, false);
    if (got > 0) {
      incoming_.insert(incoming_.end(), buffer.begin(), buffer.begin() + got);
      if (incoming_.size() > 2 * max_message_bytes) break;
    } else if (got == 0) {
      end = 0;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else {
      end = errno;
    }
  }
  std::size_t at = 0;
  while (open_ && incoming_.size() - at >= length_bytes) {
    const auto length = ByteReader(std::span(incoming_).subspan(at)).get<std::uint32_t>();
    if (length > max_message_bytes) return close(EPROTO);
    if (incoming_.size() - at - length_bytes < length) break;
    events_.message(std::span(incoming_).subspan(at + length_bytes, length));
    at += length_bytes + length;
  }
  incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(at));
  if (open_ && end >= 0) close(end == 0 ? send_error_ : end);
}

void ControlLink::write() {
  std::size_t sent = 0;
  while (sent < outgoing_.size()) {
    const std::array<iovec, 1> part{{{outgoing_.data() + sent, outgoing_.size() - sent}}};
    const auto done = socket_.write(part);
    if (done >= 0) {
      sent += static_cast<std::size_t>(done);
    } else {
      // Full, or an error that read() will find; keep the errno, which the kernel reports only
      // once.
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EPIPE) send_error_ = errno;
      break;
    }
  }
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(sent));
  reactor_.modify(socket_.get(), outgoing_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

void ControlLink::close(int number) {
  open_ = false;
  reactor_.remove(socket_.get());
  if (number == EBADMSG) {
    // Closing with unread data would send a reset, which may overtake the TLS alert for the peer.
    ::shutdown(socket_.get(), SHUT_WR);
  } else {
    socket_.reset();
  }
  outgoing_.clear();
  events_.closed(number);
}

}  // namespace tutti::control
