#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "transport/request.hpp"

namespace tutti::transport {

/// Inspects every call that a peer's frames name, to detect mismatched calls.
class CallInspector {
 public:
  CallInspector() = default;
  CallInspector(const CallInspector&) = delete;
  CallInspector& operator=(const CallInspector&) = delete;
  virtual ~CallInspector() = default;

  /// Returns false if the peer's call contradicts this rank's; then its data stays unread.
  virtual bool on_peer_call(int peer, const CallContext& theirs) = 0;
};

/// Result of an attempt to receive a message without a request.
enum class Receipt : std::uint8_t {
  taken,
  awaited,  ///< it has not arrived
  refused,  ///< it needs a request
};

struct LinkState {
  bool connected = false;  ///< the peers are or were connected
  std::string failure;     ///< why no more data will move; empty while it may
};

/// Moves bytes between this rank and all others. For use by one thread at a time.
///
/// Each stream is ordered and has flow control of its own: a stream without a receiver blocks no
/// other. Up to an agreed number of bytes a stream are sent eagerly; the rest waits for
/// clear-to-send, until the receiver has posted a request (rendezvous).
class Links {
 public:
  Links() = default;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  virtual ~Links() = default;

  /// Requests of one stream are served in the order posted.
  virtual void post(SendRequest& request) = 0;
  virtual void post(RecvRequest& request) = 0;
  /// Sends a whole message without a request if it can leave immediately. Otherwise sends nothing
  /// and returns false.
  virtual bool try_send(int /*to*/, const CallContext& /*call*/,
                        std::span<const std::byte> /*bytes*/) {
    return false;
  }
  /// Counterpart of try_send(). `call` is the sender's, and must match.
  virtual Receipt try_receive(int /*from*/, const CallContext& /*call*/,
                              std::span<std::byte> /*bytes*/) {
    return Receipt::refused;
  }
  /// True if a frame from `from` has named the call of this stream, which no request was posted
  /// for.
  [[nodiscard]] virtual bool has_arrived(int /*from*/, const StreamKey& /*key*/) { return false; }
  /// Ends a call on this rank and closes its streams. All its requests must be done.
  virtual void finish_collective(const StreamKey& key) = 0;
  /// The same for one message; a message in the other direction may have the same key.
  virtual void finish_sent(const StreamKey& key, int to) = 0;
  virtual void finish_received(const StreamKey& key, int from) = 0;

  /// Drops all requests after a failed call, since their memory is released, and moves no more
  /// data.
  virtual void abandon() {}

  /// Whether progress() may spin briefly before it sleeps. Disable it while the program computes
  /// and needs the core.
  virtual void allow_spinning(bool) {}
  /// The caller has polled without success: if nothing moves in the next progress(), it sleeps
  /// without spinning.
  virtual void skip_spinning() {}
  /// Moves all data that can move; otherwise waits up to `limit` for an event. Returns true if
  /// anything moved.
  virtual bool progress(std::chrono::nanoseconds limit) = 0;

  /// State of the half of the link from `peer` (`receiving`) or to it.
  [[nodiscard]] virtual LinkState state(int peer, bool receiving) const = 0;
};

}  // namespace tutti::transport
