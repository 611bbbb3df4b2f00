#include "member_side.hpp"

#include <fmt/format.h>

#include "rendezvous/unacknowledged.hpp"

namespace tutti::store {
namespace {

constexpr std::chrono::milliseconds grace{700};

}  // namespace

MemberSide::MemberSide(rendezvous::Membership self, int size, const Endpoint& endpoint,
                       const std::vector<rendezvous::SocketAddress>& addresses, Deadline deadline)
    : self_(std::move(self)), size_(size), where_(endpoint.text()), source_(endpoint.source) {
  std::vector<rendezvous::SocketAddress> candidates;
  for (int i = 0; i < endpoint.ports; ++i) {
    for (auto address : addresses) {
      address.set_port(static_cast<std::uint16_t>(endpoint.port + i));
      candidates.push_back(address);
    }
  }
  connect(candidates, deadline);
  send(Kind::join, Exchange::welcome, Introduction::own(size).encode(), deadline);
  await_result(Exchange::welcome, deadline);
}

void MemberSide::connect(const std::vector<rendezvous::SocketAddress>& candidates,
                         Deadline deadline) {
  rendezvous::Dialer dialer(reactor_, self_);
  std::optional<rendezvous::Connection> made;
  std::string failure;
  bool done = false;
  dialer.dial(0, rendezvous::LinkKind::control, candidates, deadline,
              [&](std::optional<rendezvous::Connection> connection, const std::string& why) {
                made = std::move(connection);
                failure = why;
                done = true;
              });
  while (!done) reactor_.run_once(deadline.until_next_look());
  if (!made) {
    throw Error(ErrorCode::timeout,
                fmt::format("set-up timed out; 1 missing: rank 0, which serves the others at {} "
                            "({}): {}; start rank 0 there, with the same secret and number of "
                            "ranks, and no rank twice",
                            where_, source_, failure))
        .with_failed_ranks({0});
  }
  // An all-gather's result is the largest.
  const auto most = static_cast<std::size_t>(size_) * (max_contribution + sizeof(std::uint32_t));
  channel_ = std::make_unique<Channel>(
      reactor_, std::move(made->socket).take_socket(), most,
      [this](Message message) {
        ++messages_;
        answers_.push_back(std::move(message));
      },
      [this](const std::string& reason) { closed_because_ = reason; });
}

void MemberSide::send(Kind kind, Exchange exchange, Bytes payload, Deadline deadline) {
  channel_->send({.kind = kind,
                  .exchange = exchange,
                  .round = round_,
                  .patience_ms = patience_of(deadline),
                  .payload = std::move(payload)});
  ++messages_;
}

Bytes MemberSide::await_result(Exchange exchange, Deadline deadline) {
  const auto last = deadline.is_never() ? deadline : deadline.anew(deadline.remaining() + grace);
  while (answers_.empty() && closed_because_.empty() && !last.expired()) {
    reactor_.run_once(last.until_next_look());
  }
  if (answers_.empty() && !closed_because_.empty()) {
    throw Error(
        ErrorCode::peer_lost,
        fmt::format("rank 0 has gone while the job was set up ({}): look at its own message",
                    closed_because_))
        .with_failed_ranks({0});
  }
  if (answers_.empty()) {
    throw Error(ErrorCode::timeout,
                fmt::format("set-up timed out: rank 0 at {} does not answer: it is stopped, or its "
                            "host is overloaded{}",
                            where_, rendezvous::describe_unacknowledged_data()))
        .with_failed_ranks({0});
  }
  const auto answer = std::move(answers_.front());
  answers_.pop_front();
  if (answer.kind == Kind::failure) throw decode_error(answer.payload);
  if (answer.kind != Kind::result || answer.exchange != exchange || answer.round != round_) {
    throw Error(ErrorCode::mismatch,
                "rank 0 is at another step of set-up than this rank: it runs another version of "
                "tutti")
        .with_failed_ranks({0});
  }
  return answer.payload;
}

Bytes MemberSide::exchange(Exchange exchange, const Bytes& mine, int root, Deadline deadline) {
  ++round_;
  if (contributes(exchange, self_.rank, root)) {
    send(Kind::contribution, exchange, mine, deadline);
  }
  return await_result(exchange, deadline);
}

}  // namespace tutti::store
