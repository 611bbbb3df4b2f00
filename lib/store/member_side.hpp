#pragma once

#include <deque>

#include "base/reactor.hpp"
#include "rendezvous/dialer.hpp"
#include "store/endpoint.hpp"
#include "store/side.hpp"

namespace tutti::store {

/// Every rank but 0: one connection to rank 0, which is dialed until it is there.
class MemberSide final : public Side {
 public:
  /// Returns when all ranks have come.
  MemberSide(rendezvous::Membership self, int size, const Endpoint& endpoint,
             const std::vector<rendezvous::SocketAddress>& addresses, Deadline deadline);

  Bytes exchange(Exchange exchange, const Bytes& mine, int root, Deadline deadline) override;

 private:
  void connect(const std::vector<rendezvous::SocketAddress>& candidates, Deadline deadline);
  void send(Kind kind, Exchange exchange, Bytes payload, Deadline deadline);
  /// Rank 0's result of this round. It tells at the deadline who is missing, so it is given a
  /// moment longer.
  Bytes await_result(Exchange exchange, Deadline deadline);

  rendezvous::Membership self_;
  int size_;
  std::string where_;
  std::string source_;
  Reactor reactor_;
  std::unique_ptr<Channel> channel_;
  // Rank 0 needs nobody for a broadcast of its own: that may come right behind what is awaited.
  std::deque<Message> answers_;
  std::string closed_because_;
  std::uint32_t round_ = 0;
};

}  // namespace tutti::store
