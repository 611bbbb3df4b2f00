#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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

/// How many messages with one tag this rank has received from each rank of a communicator. While
/// receives from any rank are `pending`, only the progress engine changes it.
struct ReceiveOrder {
  std::vector<std::uint64_t> received;  ///< by rank of the communicator
  std::atomic<int> pending{0};
};

/// A message from the rank whose message arrives first. Receives from any rank with the same tag
/// are served in the order in which they were started.
struct AnyMessage {
  std::shared_ptr<ReceiveOrder> order;
  transport::CallContext call;  ///< but for the sequence number and the sender
  std::span<std::byte> bytes;
  int from = -1;  ///< rank of the communicator, once the message has arrived
};

/// The messages of a send, a recv or a send_recv.
struct Messages {
  std::optional<OutgoingMessage> out;
  std::optional<IncomingMessage> in;
  std::optional<SelfMessage> own;
  std::optional<AnyMessage> any;  ///< becomes `in`

  [[nodiscard]] bool awaits_any() const { return any && any->from < 0; }
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
