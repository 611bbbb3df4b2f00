#pragma once

#include <deque>

#include "base/reactor.hpp"
#include "rendezvous/dialer.hpp"
#include "store/side.hpp"
#include "store/store_address.hpp"

namespace tutti::store {

/// Side of the ranks other than 0: one connection to rank 0, dialed until it answers.
class MemberSide final : public Side {
 public:
  /// Blocks until all ranks have joined.
  MemberSide(rendezvous::Membership self, int size, const StoreAddress& store_address,
             const std::vector<rendezvous::SocketAddress>& addresses, Deadline deadline);

  Bytes exchange(StoreOperation operation, const Bytes& mine, int root, Deadline deadline) override;

 private:
  void connect(const std::vector<rendezvous::SocketAddress>& candidates, Deadline deadline);
  void send(StoreMessageKind kind, StoreOperation operation, Bytes payload, Deadline deadline);
  /// Waits for rank 0's result. Rank 0 sends a timeout error at the deadline, so this waits
  /// slightly longer.
  Bytes await_result(StoreOperation operation, Deadline deadline);

  rendezvous::Membership self_;
  int size_;
  std::string where_;
  std::string source_;
  Reactor reactor_;
  std::unique_ptr<Channel> channel_;
  // A queue: rank 0's own broadcast needs no contribution and may follow an awaited result.
  std::deque<StoreMessage> answers_;
  std::string close_reason_;
  std::uint32_t round_ = 0;
};

}  // namespace tutti::store
