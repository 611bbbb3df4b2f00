#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "transport/request.hpp"

namespace tutti::transport {

/// Told of every call that a peer's frames speak of, so that different calls are found.
class CallInspector {
 public:
  CallInspector() = default;
  CallInspector(const CallInspector&) = delete;
  CallInspector& operator=(const CallInspector&) = delete;
  virtual ~CallInspector() = default;

  /// False where the peer's call contradicts this rank's: then its data is left alone.
  virtual bool on_peer_call(int peer, const CallContext& theirs) = 0;
};

/// What became of a message that was to be taken at once.
enum class Receipt : std::uint8_t {
  taken,
  awaited,  ///< it is not there yet
  refused,  ///< it needs a request
};

struct LinkState {
  bool made = false;    ///< the peers are or were connected
  std::string failure;  ///< why nothing more will move; empty while something may
};

/// How bytes get from this rank to every other. For one thread at a time.
///
/// A stream is sent in order and flow-controlled on its own: what nobody awaits holds up no other
/// stream. Up to an agreed number of bytes a stream are sent ahead; the rest waits until its
/// receiver has posted a place for it.
class Links {
 public:
  Links() = default;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  virtual ~Links() = default;

  /// Requests of one stream are served in the order posted.
  virtual void post(SendRequest& request) = 0;
  virtual void post(RecvRequest& request) = 0;
  /// Sends a whole message without a request, where it can leave at once. Else false, and nothing
  /// has left.
  virtual bool try_send(int /*to*/, const CallContext& /*call*/,
                        std::span<const std::byte> /*bytes*/) {
    return false;
  }
  /// The other side of that; `call` is the sender's, as it must be to fit.
  virtual Receipt try_receive(int /*from*/, const CallContext& /*call*/,
                              std::span<std::byte> /*bytes*/) {
    return Receipt::refused;
  }
  /// The call is over on this rank: its streams are forgotten. All its requests are done.
  virtual void finish_collective(const StreamKey& key) = 0;
  /// The same for one message; the other direction may have a message of the same key.
  virtual void finish_sent(const StreamKey& key, int to) = 0;
  virtual void finish_received(const StreamKey& key, int from) = 0;

  /// A call has failed on this rank: all requests are forgotten, since their memory goes, and
  /// nothing is moved any more.
  virtual void abandon() {}

  /// Whether progress() may spin for a moment before it sleeps: not where the program computes
  /// meanwhile and needs the core.
  virtual void allow_spinning(bool) {}
  /// The caller has waited in vain already: where nothing moves next, progress() sleeps at once.
  virtual void spin_no_more() {}
  /// Moves what can be moved now; if nothing can, waits for at most `limit` until something may.
  /// True if anything moved.
  virtual bool progress(std::chrono::nanoseconds limit) = 0;

  /// The half of the link by which bytes come from `peer` (`receiving`) or go to it.
  [[nodiscard]] virtual LinkState state(int peer, bool receiving) const = 0;
};

}  // namespace tutti::transport
