#pragma once

#include <map>
#include <optional>

#include "base/log.hpp"
#include "base/reactor.hpp"
#include "rendezvous/acceptor.hpp"
#include "store/side.hpp"
#include "store/store_address.hpp"

namespace tutti::store {

/// Rank 0's side: accepts and serves the other ranks. It runs only within exchange(); between
/// calls, messages stay in the sockets.
class RootSide final : public Side {
 public:
  /// Blocks until all ranks have joined.
  RootSide(rendezvous::Membership self, int size, const StoreAddress& store_address,
           const std::vector<rendezvous::SocketAddress>& addresses, Log& log, Deadline deadline);

  Bytes exchange(StoreOperation operation, const Bytes& mine, int root, Deadline deadline) override;

 private:
  struct Member {
    std::unique_ptr<Channel> channel;
    std::optional<JoinRequest> join;
    std::optional<StoreMessage> contribution;  ///< of the current operation or the next one
    Deadline deadline = Deadline::never();
  };

  void on_connection(rendezvous::Connection connection);
  void on_message(int rank, StoreMessage message);
  void on_closed(int rank, const std::string& reason);
  /// Waits until `is_ready` holds for every other rank. The earliest of the members' deadlines
  /// applies, so that the member receives the error before it gives up.
  template <class IsReady>
  void wait(IsReady is_ready, Deadline deadline);
  [[nodiscard]] Error missing(const std::vector<int>& ranks) const;
  /// Sends the error to all members and throws it.
  [[noreturn]] void fail(const Error& error);
  void send_to_all(StoreOperation operation, const Bytes& payload);
  [[nodiscard]] std::string describe(int rank) const;

  rendezvous::Membership self_;
  int size_;
  std::string where_;
  Deadline setup_;  ///< its clock measures the members' deadlines
  Reactor reactor_;
  std::unique_ptr<rendezvous::Acceptor> acceptor_;
  std::map<int, Member> members_;
  std::uint32_t round_ = 0;
  std::optional<Error> failure_;
};

}  // namespace tutti::store
