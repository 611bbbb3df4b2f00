#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rendezvous/secure_socket.hpp"
#include "transport/link_memory.hpp"
#include "transport/ring.hpp"

namespace tutti::transport {

/// What one end of a link reads and writes: a socket or, between ranks that share memory, two rings
/// in it. The socket stays beside the rings: by a byte on it a peer that sleeps is woken, and by
/// its end a peer's.
///
/// Whoever dials decides, and says so in the first byte on the socket; only where both have come to
/// share memory is there such a byte.
class LinkEndpoint {
 public:
  LinkEndpoint() = default;
  LinkEndpoint(rendezvous::SecureSocket socket)
      : socket_(std::move(socket)) {}  // NOLINT: bytes by the socket
  /// Between ranks that share memory. Of the one who dials `memory` may be null: there was none.
  [[nodiscard]] static LinkEndpoint dialed(rendezvous::SecureSocket socket,
                                           std::unique_ptr<LinkMemory> memory);
  [[nodiscard]] static LinkEndpoint accepted(rendezvous::SecureSocket socket,
                                             std::unique_ptr<LinkMemory> memory);

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }
  [[nodiscard]] int fd() const { return socket_.get(); }

  /// As recvmsg() and sendmsg(), without ever blocking. `streaming`: into a ring, past the caches.
  ssize_t write(std::span<const iovec> parts, bool streaming = false);
  ssize_t read(std::span<const iovec> parts, bool ahead = true);
  [[nodiscard]] bool has_buffered_data() const {
    return !has_rings_ && socket_.has_buffered_data();
  }
  [[nodiscard]] std::string explain(int number) const { return socket_.explain(number); }

  /// By which of both it goes is known. Until then nothing can be read or written.
  [[nodiscard]] bool is_settled() const { return settled_; }
  /// Takes the first byte if it has come. False where it was a wrong one, or the peer is gone.
  [[nodiscard]] bool settle();

  /// Between frames of what the dialer sends: in a ring each begins on a line of its own.
  void begin_frame_out() {
    if (has_rings_) out_->align();
  }
  void begin_frame_in() {
    if (has_rings_) in_->align();
  }

  [[nodiscard]] bool has_rings() const { return has_rings_; }
  // Only with rings, from here on.
  [[nodiscard]] bool has_input() const { return in_->available() > 0; }
  [[nodiscard]] bool has_space(std::size_t bytes = 1) { return out_->has_space(bytes); }
  [[nodiscard]] RingReader& input() { return *in_; }
  /// Takes the wake-up bytes that have come, and sees the end of the peer. What it had put into the
  /// ring before can still be read.
  void drain_doorbell();
  /// True once the peer has closed its end or is gone.
  [[nodiscard]] bool is_closed() const { return closed_; }
  /// What was written or taken, a peer that sleeps is to see.
  void wake_peer();

 private:
  void use_rings();

  rendezvous::SecureSocket socket_;
  std::unique_ptr<LinkMemory> memory_;
  std::optional<RingReader> in_;
  std::optional<RingWriter> out_;
  bool dialed_ = false;
  bool settled_ = true;
  bool has_rings_ = false;
  bool closed_ = false;
};

}  // namespace tutti::transport
