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

void MessageTransfer::add_awaited(std::vector<Awaited>& all) const {
  if (!recv_.done()) all.push_back({recv_.peer, true});
  if (!send_.done()) all.push_back({send_.peer, false});
}

}  // namespace tutti::engine
