#include "engine/message_transfer.hpp"

namespace tutti::engine {

void MessageTransfer::send(transport::Links& links, const OutgoingMessage& message) {
  send_ = {.peer = message.to,
           .call = &message.call,
           .from = message.bytes,
           .names_call = message.bytes.empty()};
  links.post(send_);
}

void MessageTransfer::receive(transport::Links& links, const IncomingMessage& message) {
  recv_.peer = message.from;
  recv_.call = &message.call;
  recv_.to = message.bytes;
  recv_.awaits_call = message.bytes.empty();
  links.post(recv_);
}

std::vector<Awaited> MessageTransfer::awaited() const {
  std::vector<Awaited> result;
  if (!recv_.done()) result.push_back({recv_.peer, true});
  if (!send_.done()) result.push_back({send_.peer, false});
  return result;
}

}  // namespace tutti::engine
