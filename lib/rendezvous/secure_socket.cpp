#include "rendezvous/secure_socket.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "base/system_error.hpp"

namespace tutti::rendezvous {
namespace {

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  // Neither call changes the parts, but msghdr has no const.
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

ssize_t SecureSocket::write_plain(std::span<const iovec> parts) const {
  const auto message = message_of(parts);
  ssize_t result = 0;
  do {
    result = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return result;
}

ssize_t SecureSocket::read_plain(std::span<const iovec> parts) const {
  auto message = message_of(parts);
  ssize_t result = 0;
  do {
    result = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string SecureSocket::explain(int number) const {
  if (tls_ && !tls_->failure().empty()) return tls_->failure();
  return errno_text(number);
}

}  // namespace tutti::rendezvous
