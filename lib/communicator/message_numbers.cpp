#include "communicator/message_numbers.hpp"

#include <fmt/format.h>

#include "communicator/backend.hpp"
#include "tutti/error.hpp"

namespace tutti {

std::shared_ptr<engine::ReceiveOrder> MessageNumbers::order_of(std::uint32_t tag) {
  auto& order = any_orders_[tag];
  if (order) return order;
  order = std::make_shared<engine::ReceiveOrder>();
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto found = received_.find({rank, tag});
    order->received.push_back(found == received_.end() ? 0 : found->second);
    if (found != received_.end()) received_.erase(found);
  }
  return order;
}

std::uint64_t MessageNumbers::next_received(int peer, std::uint32_t tag) {
  const auto found = any_orders_.find(tag);
  if (found == any_orders_.end()) return ++received_[{peer, tag}];
  auto& order = *found->second;
  if (order.pending.load(std::memory_order_acquire) > 0) {
    throw Error(ErrorCode::usage,
                fmt::format("recv from rank {} while a receive from any rank with tag {} is in "
                            "flight: complete that first, or use another tag",
                            peer, tag));
  }
  return ++order.received[static_cast<std::size_t>(peer)];
}

std::vector<std::uint64_t> MessageNumbers::totals(
    const std::map<Peer, std::uint64_t>& numbers) const {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(ranks_));
  for (const auto& [peer, number] : numbers) {
    if (peer.second != internal_tag) counts[static_cast<std::size_t>(peer.first)] += number;
  }
  return counts;
}

std::vector<std::uint64_t> MessageNumbers::received() const {
  auto counts = totals(received_);
  for (const auto& [tag, order] : any_orders_) {
    for (std::size_t peer = 0; peer < counts.size(); ++peer) counts[peer] += order->received[peer];
  }
  return counts;
}

}  // namespace tutti
