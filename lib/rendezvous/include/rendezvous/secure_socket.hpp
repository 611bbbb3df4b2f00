#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "rendezvous/tls.hpp"

namespace tutti::rendezvous {

/// A connected socket, plain or encrypted. Reads and writes never block, and behave as recvmsg()
/// and sendmsg() do, with what Tls says of EAGAIN. Forked children do not hold the socket.
class SecureSocket {
 public:
  SecureSocket() = default;
  [[nodiscard]] static SecureSocket plain(Descriptor socket) {
    return {std::move(socket), nullptr};
  }
  /// Plain without `tls`.
  SecureSocket(Descriptor socket, std::unique_ptr<Tls> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)) {
    socket_.close_on_fork();
  }

  [[nodiscard]] int get() const { return socket_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }
  [[nodiscard]] bool is_encrypted() const { return tls_ != nullptr; }
  void reset() noexcept {
    tls_.reset();
    socket_.reset();
  }
  /// Of a plain one.
  [[nodiscard]] Descriptor take_socket() && { return std::move(socket_); }

  ssize_t write(std::span<const iovec> parts) {
    return tls_ ? tls_->write(parts) : write_plain(parts);
  }
  ssize_t read(std::span<const iovec> parts, bool ahead = true) {
    return tls_ ? tls_->read(parts, ahead) : read_plain(parts);
  }
  [[nodiscard]] bool holds_back() const { return tls_ && tls_->holds_back(); }
  /// What the errno of a read or write means.
  [[nodiscard]] std::string explain(int number) const;

 private:
  ssize_t write_plain(std::span<const iovec> parts) const;
  ssize_t read_plain(std::span<const iovec> parts) const;

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace tutti::rendezvous
