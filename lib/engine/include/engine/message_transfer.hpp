#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/execution.hpp"
#include "transport/links.hpp"

namespace tutti::engine {

/// A message to another rank; `to` is a rank of the job.
struct OutgoingMessage {
  int to = -1;
  transport::CallContext call;
  std::span<const std::byte> bytes;
};

/// A message from another rank; `from` is a rank of the job.
struct IncomingMessage {
  int from = -1;
  transport::CallContext call;          ///< this rank's receive
  transport::CallContext senders_call;  ///< the send that matches it
  std::span<std::byte> bytes;
};

/// A message from this rank to itself.
struct SelfMessage {
  std::span<const std::byte> from;
  std::byte* to = nullptr;
};

/// The messages of a send, a recv or a send_recv.
struct Messages {
  std::optional<OutgoingMessage> out;
  std::optional<IncomingMessage> in;
  std::optional<SelfMessage> own;
};

/// A send, a receive or both in progress; they need no schedule. A message without bytes is done
/// when the frame that names its call has been sent or received.
class MessageTransfer {
 public:
  MessageTransfer() = default;
  MessageTransfer(const MessageTransfer&) = delete;
  MessageTransfer& operator=(const MessageTransfer&) = delete;

  /// `message` must outlive the transfer.
  void send(transport::Links& links, const OutgoingMessage& message);
  void receive(transport::Links& links, const IncomingMessage& message);

  [[nodiscard]] bool done() const { return send_.done() && recv_.done(); }
  /// Appends the peers that it waits for.
  void add_awaited(std::vector<Awaited>& all) const;

 private:
  transport::SendRequest send_;
  transport::RecvRequest recv_;
};

}  // namespace tutti::engine
