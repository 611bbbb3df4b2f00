#include "store/channel.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/bytes.hpp"
#include "base/system_error.hpp"

namespace tutti::store {

Channel::Channel(Reactor& reactor, Descriptor socket, std::size_t max_bytes, OnMessage on_message,
                 OnClosed on_closed)
    : reactor_(reactor),
      socket_(std::move(socket)),
      max_bytes_(max_bytes),
      on_message_(std::move(on_message)),
      on_closed_(std::move(on_closed)) {
  socket_.close_on_fork();
  reactor_.add(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
}

Channel::~Channel() {
  if (socket_) reactor_.remove(socket_.get());
}

void Channel::send(const StoreMessage& message) {
  send(message, std::make_shared<const Bytes>(message.payload));
}

void Channel::send(const StoreMessage& header, std::shared_ptr<const Bytes> payload) {
  if (closed_) return;
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(header.kind))
      .put(static_cast<std::uint8_t>(header.operation))
      .put(std::uint16_t{0})
      .put(header.round)
      .put(header.timeout_ms)
      .put(static_cast<std::uint32_t>(payload->size()));
  out_.push_back(std::make_shared<const Bytes>(std::move(writer).bytes()));
  if (!payload->empty()) out_.push_back(std::move(payload));
  flush();
}

void Channel::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (!closed_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
}

void Channel::receive() {
  constexpr std::size_t max_chunk = std::size_t{64} << 10;
  std::array<std::byte, max_chunk> buffer;
  while (!closed_) {
    const auto wanted = std::min(max_chunk, due_ - in_.size());
    const auto got = ::recv(socket_.get(), buffer.data(), wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      return close(got == 0 ? std::string("it closed the connection") : errno_text(errno));
    }
    in_.insert(in_.end(), buffer.begin(), buffer.begin() + got);
    if (in_.size() < due_) continue;
    if (!in_payload_ && !take_header()) return;
    if (!in_payload_ || in_.size() < due_) continue;
    incoming_.payload = std::move(in_);
    in_ = {};
    in_payload_ = false;
    due_ = header_bytes;
    on_message_(std::move(incoming_));
  }
}

/// Returns false if the header is malformed. A message without a payload is complete.
bool Channel::take_header() {
  ByteReader reader(in_);
  const auto kind = reader.get<std::uint8_t>();
  const auto operation = reader.get<std::uint8_t>();
  const auto zero = reader.get<std::uint16_t>();
  incoming_ = {.kind = static_cast<StoreMessageKind>(kind),
               .operation = static_cast<StoreOperation>(operation)};
  incoming_.round = reader.get<std::uint32_t>();
  incoming_.timeout_ms = reader.get<std::uint32_t>();
  const auto length = reader.get<std::uint32_t>();
  if (kind < 1 || kind > 4 || operation > 3 || zero != 0) {
    close("it sent a malformed message");
    return false;
  }
  if (length > max_bytes_) {
    close(fmt::format("it sent a message of {} bytes, the maximum is {}", length, max_bytes_));
    return false;
  }
  in_.clear();
  in_payload_ = true;
  due_ = length;
  return true;
}

/// Sends a header and its payload in one packet.
ssize_t Channel::write_some() const {
  constexpr std::size_t max_chunk = 8;
  std::array<iovec, max_chunk> parts;
  const auto count = std::min(max_chunk, out_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto skipped = i == 0 ? sent_ : 0;
    // sendmsg() does not modify the data, but iovec has no const.
    auto* const data = const_cast<std::byte*>(out_[i]->data());
    parts[i] = {.iov_base = data + skipped, .iov_len = out_[i]->size() - skipped};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

void Channel::flush() {
  while (!closed_ && !out_.empty()) {
    const auto done = write_some();
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (done < 0) {
      // Messages sent by the peer before it closed may still be unread.
      out_.clear();
      break;
    }
    sent_ += static_cast<std::size_t>(done);
    while (!out_.empty() && sent_ >= out_.front()->size()) {
      sent_ -= out_.front()->size();
      out_.pop_front();
    }
  }
  const bool wants_write = !closed_ && !out_.empty();
  if (wants_write != wants_write_ && !closed_) {
    reactor_.modify(socket_.get(), wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
    wants_write_ = wants_write;
  }
}

void Channel::close(const std::string& reason) {
  closed_ = true;
  reactor_.remove(socket_.get());
  socket_.reset();
  on_closed_(reason);
}

}  // namespace tutti::store
