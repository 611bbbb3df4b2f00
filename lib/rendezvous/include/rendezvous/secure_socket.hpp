#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "rendezvous/tls.hpp"

namespace tutti::rendezvous {

/// A connected socket, plain or encrypted. Reads and writes never block and behave like recvmsg()
/// and sendmsg(), with Tls's rules for EAGAIN. The socket is closed in forked children.
class SecureSocket {
 public:
  SecureSocket() = default;
  [[nodiscard]] static SecureSocket plain(Descriptor socket) {
    return {std::move(socket), nullptr};
  }
  /// Plain if `tls` is null.
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
  /// Only for a plain socket.
  [[nodiscard]] Descriptor take_socket() && { return std::move(socket_); }

  ssize_t write(std::span<const iovec> parts) {
    return tls_ ? tls_->write(parts) : write_plain(parts);
  }
  ssize_t read(std::span<const iovec> parts, bool ahead = true) {
    return tls_ ? tls_->read(parts, ahead) : read_plain(parts);
  }
  [[nodiscard]] bool has_buffered_data() const { return tls_ && tls_->has_buffered_data(); }
  /// The text for the errno of a failed read or write.
  [[nodiscard]] std::string explain(int number) const;

 private:
  ssize_t write_plain(std::span<const iovec> parts) const;
  ssize_t read_plain(std::span<const iovec> parts) const;

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace tutti::rendezvous
