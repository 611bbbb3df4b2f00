#pragma once

#include <map>
#include <optional>

#include "base/log.hpp"
#include "base/reactor.hpp"
#include "rendezvous/acceptor.hpp"
#include "store/endpoint.hpp"
#include "store/side.hpp"

namespace tutti::store {

/// Rank 0: waits for the others and serves them. It works only within a call of exchange(); in
/// between, what comes waits in the sockets.
class RootSide final : public Side {
 public:
  /// Returns when all have come.
  RootSide(rendezvous::Membership self, int size, const Endpoint& endpoint,
           const std::vector<rendezvous::SocketAddress>& addresses, Log& log, Deadline deadline);

  Bytes exchange(Exchange exchange, const Bytes& mine, int root, Deadline deadline) override;

 private:
  struct Member {
    std::unique_ptr<Channel> channel;
    std::optional<Introduction> introduction;
    std::optional<Message> contribution;  ///< of the exchange in progress, or of the next one
    Deadline patience = Deadline::never();
  };

  void on_connection(rendezvous::Connection connection);
  void on_message(int rank, Message message);
  void on_closed(int rank, const std::string& reason);
  /// Until `has_come` holds for every other rank. The one with the least patience sets the
  /// deadline, so that it hears who is missing before it gives up.
  template <class HasCome>
  void wait(HasCome has_come, Deadline deadline);
  [[nodiscard]] Error missing(const std::vector<int>& ranks) const;
  /// Tells all members and throws.
  [[noreturn]] void fail(const Error& error);
  void send_to_all(Exchange exchange, const Bytes& payload);
  [[nodiscard]] std::string describe(int rank) const;

  rendezvous::Membership self_;
  int size_;
  std::string where_;
  Deadline setup_;  ///< whose clock members' patience is measured by
  Reactor reactor_;
  std::unique_ptr<rendezvous::Acceptor> acceptor_;
  std::map<int, Member> members_;
  std::uint32_t round_ = 0;
  std::optional<Error> failure_;
};

}  // namespace tutti::store
