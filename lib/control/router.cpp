#include "control/router.hpp"

#include <algorithm>

namespace tutti::control {

Router::Router(int rank, int size, LinkSet links)
    : rank_(rank), links_(std::move(links)), seen_(static_cast<std::size_t>(size)) {}

void Router::send(ControlMessageKind kind, int target, Bytes body) {
  const ControlMessage message{kind, rank_, target, ++serial_, std::move(body)};
  if (target == rank_) return links_.deliver(message);
  forward(message, rank_);
}

void Router::on_message(int neighbour, const ControlMessage& message) {
  if (message.origin == rank_ || !is_new(message)) return;
  seen_[static_cast<std::size_t>(message.origin)].arrived_from = neighbour;
  if (message.target != all_ranks && message.target != rank_) return forward(message, neighbour);
  if (message.target == all_ranks) forward(message, neighbour);
  links_.deliver(message);
}

bool Router::is_new(const ControlMessage& message) {
  auto& seen = seen_[static_cast<std::size_t>(message.origin)];
  if (message.serial > seen.highest) {
    const auto step = message.serial - seen.highest;
    seen.window = step < 64 ? (seen.window << step) | 1U : 1U;
    seen.highest = message.serial;
    return true;
  }
  const auto age = seen.highest - message.serial;
  if (age >= 64) return false;
  const auto bit = std::uint64_t{1} << age;
  const bool fresh = (seen.window & bit) == 0;
  seen.window |= bit;
  return fresh;
}

void Router::forward(const ControlMessage& message, int except) {
  const auto linked = links_.linked();
  if (message.target != all_ranks) {
    const auto is_linked = [&](int rank) {
      return rank != except && std::find(linked.begin(), linked.end(), rank) != linked.end();
    };
    const int back = seen_[static_cast<std::size_t>(message.target)].arrived_from;
    for (const int hop : {message.target, back}) {
      if (is_linked(hop)) return links_.pass(hop, message);
    }
    // No route known: flooding reaches the target too.
  }
  for (const int neighbour : linked) {
    if (neighbour != except && neighbour != message.origin) links_.pass(neighbour, message);
  }
}

}  // namespace tutti::control
