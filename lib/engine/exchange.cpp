#include "engine/exchange.hpp"

namespace tutti::engine {

void Exchange::send(transport::Links& links, int to, const transport::CallContext& call,
                    std::span<const std::byte> bytes) {
  send_ = {.peer = to, .call = &call, .from = bytes, .names_call = bytes.empty()};
  links.post(send_);
}

void Exchange::receive(transport::Links& links, int from, const transport::CallContext& call,
                       std::span<std::byte> bytes) {
  recv_.peer = from;
  recv_.call = &call;
  recv_.to = bytes;
  recv_.awaits_call = bytes.empty();
  links.post(recv_);
}

std::vector<Awaited> Exchange::awaited() const {
  std::vector<Awaited> result;
  if (!recv_.done()) result.push_back({recv_.peer, true});
  if (!send_.done()) result.push_back({send_.peer, false});
  return result;
}

}  // namespace tutti::engine
