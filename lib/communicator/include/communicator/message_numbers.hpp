#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/message_transfer.hpp"

namespace tutti {

/// Numbers the messages of one communicator, so that a send and its recv find each other: from 1,
/// for each other rank and tag, in each direction.
class MessageNumbers {
 public:
  /// `ranks`: size of the communicator.
  explicit MessageNumbers(int ranks) : ranks_(ranks) {}

  [[nodiscard]] std::uint64_t next_sent(int peer, std::uint32_t tag) {
    return ++sent_[{peer, tag}];
  }
  /// Throws Error{usage} while a receive from any rank with this tag is in flight: it may get the
  /// number.
  [[nodiscard]] std::uint64_t next_received(int peer, std::uint32_t tag);
  /// For a receive from any rank, whose sender determines its number.
  [[nodiscard]] std::shared_ptr<engine::ReceiveOrder> order_of(std::uint32_t tag);

  /// The program's messages to or from each rank, without the library's own.
  [[nodiscard]] std::vector<std::uint64_t> sent() const { return totals(sent_); }
  [[nodiscard]] std::vector<std::uint64_t> received() const;

 private:
  using Peer = std::pair<int, std::uint32_t>;  ///< rank, tag

  [[nodiscard]] std::vector<std::uint64_t> totals(
      const std::map<Peer, std::uint64_t>& numbers) const;

  int ranks_;
  std::map<Peer, std::uint64_t> sent_;
  std::map<Peer, std::uint64_t> received_;
  /// Of the tags with which this rank has received from any rank; then received_ has them no more.
  std::map<std::uint32_t, std::shared_ptr<engine::ReceiveOrder>> any_orders_;
};

}  // namespace tutti
