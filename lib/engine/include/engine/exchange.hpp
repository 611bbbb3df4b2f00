#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/execution.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// A message of this rank's to another; `to` counts the job's ranks, as `from` below.
struct Outgoing {
  int to = -1;
  transport::CallContext call;
  std::span<const std::byte> bytes;
};

/// A message of another rank's to this one.
struct Incoming {
  int from = -1;
  transport::CallContext call;          ///< this rank's
  transport::CallContext senders_call;  ///< as it must be to fit
  std::span<std::byte> bytes;
};

/// A message of this rank's to itself.
struct OwnMessage {
  std::span<const std::byte> from;
  std::byte* to = nullptr;
};

/// What a send, a recv, or both at once move.
struct Messages {
  std::optional<Outgoing> out;
  std::optional<Incoming> in;
  std::optional<OwnMessage> own;
};

/// Messages on their way, which need no schedule. An empty one is there when its call has been
/// named.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// The message stays until it is done.
  void send(transport::Links& links, const Outgoing& message);
  void receive(transport::Links& links, const Incoming& message);

  [[nodiscard]] bool done() const { return send_.done() && recv_.done(); }
  [[nodiscard]] std::vector<Awaited> awaited() const;

 private:
  transport::SendRequest send_;
  transport::RecvRequest recv_;
};

}  // namespace tutti::engine
