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

/// One end of a link: a socket or, between ranks that share memory, two ring buffers. The socket
/// stays open beside the rings: a byte on it is the doorbell of a sleeping peer, and its end
/// signals the peer's.
///
/// Between ranks that share memory the dialer chooses and sends its choice as the first byte on the
/// socket.
class LinkEndpoint {
 public:
  LinkEndpoint() = default;
  LinkEndpoint(rendezvous::SecureSocket socket)
      : socket_(std::move(socket)) {}  // NOLINT: implicit, for links by socket
  /// For ranks that share memory. The dialer's `memory` is null if it could not be allocated.
  [[nodiscard]] static LinkEndpoint dialed(rendezvous::SecureSocket socket,
                                           std::unique_ptr<LinkMemory> memory);
  [[nodiscard]] static LinkEndpoint accepted(rendezvous::SecureSocket socket,
                                             std::unique_ptr<LinkMemory> memory);

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }
  [[nodiscard]] int fd() const { return socket_.get(); }

  /// Like recvmsg() and sendmsg(), never blocking. `streaming`: uses non-temporal stores into a
  /// ring.
  ssize_t write(std::span<const iovec> parts, bool streaming = false);
  ssize_t read(std::span<const iovec> parts, bool ahead = true);
  [[nodiscard]] bool has_buffered_data() const {
    return !has_rings_ && socket_.has_buffered_data();
  }
  [[nodiscard]] std::string explain(int number) const { return socket_.explain(number); }

  /// True once the choice between socket and rings is known. Before that nothing can be read or
  /// written.
  [[nodiscard]] bool is_negotiated() const { return negotiated_; }
  /// Reads the first byte if it has arrived. Returns false if it is invalid or the peer has closed.
  [[nodiscard]] bool negotiate();

  /// Called between frames of the dialer: in a ring each frame begins on a cache line.
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
  [[nodiscard]] const LinkMemory& memory() const { return *memory_; }
  /// Reads the wake-up bytes and detects the end of the peer. Data in the ring can still be read
  /// afterwards.
  void drain_doorbell();
  /// True once the peer has closed its end.
  [[nodiscard]] bool is_closed() const { return closed_; }
  /// Wakes the peer, if it sleeps, after a read or write of a ring.
  void wake_peer();

 private:
  void use_rings();

  rendezvous::SecureSocket socket_;
  std::unique_ptr<LinkMemory> memory_;
  std::optional<RingReader> in_;
  std::optional<RingWriter> out_;
  bool dialed_ = false;
  bool negotiated_ = true;
  bool has_rings_ = false;
  bool closed_ = false;
};

}  // namespace tutti::transport
