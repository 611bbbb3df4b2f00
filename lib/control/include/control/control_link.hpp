#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/reactor.hpp"
#include "control/message.hpp"
#include "rendezvous/secure_socket.hpp"

namespace tutti::control {

/// A control link: messages with a 4-byte length prefix over an authenticated socket.
class ControlLink {
 public:
  struct Events {
    std::function<void(std::span<const std::byte>)> message;
    /// The link is closed; all messages received before were delivered. `number` is the errno, 0
    /// for an orderly close, EBADMSG if an encrypted link was tampered with.
    std::function<void(int number)> closed;
  };

  /// `keepalive`: time after which an unresponsive host is given up, by TCP keep-alive probes. The
  /// peer's kernel answers them, so a stopped or computing process is not taken for dead.
  ControlLink(Reactor& reactor, rendezvous::SecureSocket socket, std::chrono::seconds keepalive,
              Events events);
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;
  ~ControlLink();

  void send(const Bytes& message);
  /// True if all messages were passed to the kernel.
  [[nodiscard]] bool flushed() const { return outgoing_.empty(); }
  [[nodiscard]] bool is_open() const { return open_; }

 private:
  void on_ready(std::uint32_t events);
  void read();
  void write();
  void close(int number);

  Reactor& reactor_;
  rendezvous::SecureSocket socket_;
  Events events_;
  Bytes incoming_;
  Bytes outgoing_;
  bool open_ = true;
  int send_error_ = 0;  ///< errno of a failed send
};

}  // namespace tutti::control
