#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/reactor.hpp"
#include "control/message.hpp"
#include "rendezvous/secure_socket.hpp"

namespace tutti::control {

/// A control link: messages, each after its 4-byte length, over one authenticated socket.
class ControlLink {
 public:
  struct Events {
    std::function<void(std::span<const std::byte>)> message;
    /// The link is gone; all that had arrived was delivered before. `number` is the errno, 0 for an
    /// orderly close, EBADMSG where an encrypted link was tampered with.
    std::function<void(int number)> closed;
  };

  /// `keepalive`: time after which a silent host is given up, by TCP's own probes: they are
  /// answered by the peer's kernel, so that a process that is stopped or computes is not taken for
  /// dead.
  ControlLink(Reactor& reactor, rendezvous::SecureSocket socket, std::chrono::seconds keepalive,
              Events events);
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;
  ~ControlLink();

  void send(const Bytes& message);
  /// True if all that was sent is in the kernel's hands.
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
  int broken_by_ = 0;  ///< the errno of a send
};

}  // namespace tutti::control
