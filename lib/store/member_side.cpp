#include "member_side.hpp"

#include <fmt/format.h>

#include "rendezvous/unacknowledged.hpp"

namespace tutti::store {
namespace {

constexpr std::chrono::milliseconds result_grace{700};

}  // namespace

MemberSide::MemberSide(rendezvous::Membership self, int size, const StoreAddress& store_address,
                       const std::vector<rendezvous::SocketAddress>& addresses, Deadline deadline)
    : self_(std::move(self)),
      size_(size),
      where_(store_address.text()),
      source_(store_address.source) {
  std::vector<rendezvous::SocketAddress> candidates;
  for (int i = 0; i < store_address.ports; ++i) {
    for (auto address : addresses) {
      address.set_port(static_cast<std::uint16_t>(store_address.port + i));
      candidates.push_back(address);
    }
  }
  connect(candidates, deadline);
  send(StoreMessageKind::join, StoreOperation::welcome, JoinRequest::own(size).encode(), deadline);
  await_result(StoreOperation::welcome, deadline);
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
  while (!done) reactor_.run_once(deadline.poll_interval());
  if (!made) {
    throw Error(ErrorCode::timeout,
                fmt::format("set-up timed out; 1 missing: rank 0, which should listen at {} "
                            "({}): {}; start rank 0 there, with the same secret and number of "
                            "ranks, and no rank twice",
                            where_, source_, failure),
                {0});
  }
  // An all-gather's result is the largest payload.
  const auto max_payload =
      static_cast<std::size_t>(size_) * (max_contribution + sizeof(std::uint32_t));
  channel_ = std::make_unique<Channel>(
      reactor_, std::move(made->socket).take_socket(), max_payload,
      [this](StoreMessage message) {
        ++messages_;
        answers_.push_back(std::move(message));
      },
      [this](const std::string& reason) { close_reason_ = reason; });
}

void MemberSide::send(StoreMessageKind kind, StoreOperation operation, Bytes payload,
                      Deadline deadline) {
  channel_->send({.kind = kind,
                  .operation = operation,
                  .round = round_,
                  .timeout_ms = remaining_ms(deadline),
                  .payload = std::move(payload)});
  ++messages_;
}

Bytes MemberSide::await_result(StoreOperation operation, Deadline deadline) {
  const auto last =
      deadline.is_never() ? deadline : deadline.anew(deadline.remaining() + result_grace);
  while (answers_.empty() && close_reason_.empty() && !last.expired()) {
    reactor_.run_once(last.poll_interval());
  }
  if (answers_.empty() && !close_reason_.empty()) {
    throw Error(
        ErrorCode::peer_lost,
        fmt::format("rank 0 ended during set-up ({}): check its own message", close_reason_), {0});
  }
  if (answers_.empty()) {
    throw Error(ErrorCode::timeout,
                fmt::format("set-up timed out: rank 0 at {} does not answer: it is stopped, or its "
                            "host is overloaded{}",
                            where_, rendezvous::describe_unacknowledged_data()),
                {0});
  }
  const auto answer = std::move(answers_.front());
  answers_.pop_front();
  if (answer.kind == StoreMessageKind::failure) throw decode_error(answer.payload);
  if (answer.kind != StoreMessageKind::result || answer.operation != operation ||
      answer.round != round_) {
    throw Error(ErrorCode::mismatch,
                "rank 0 is at another step of set-up than this rank: it runs another version of "
                "tutti",
                {0});
  }
  return answer.payload;
}

Bytes MemberSide::exchange(StoreOperation operation, const Bytes& mine, int root,
                           Deadline deadline) {
  ++round_;
  if (contributes(operation, self_.rank, root)) {
    send(StoreMessageKind::contribution, operation, mine, deadline);
  }
  return await_result(operation, deadline);
}

}  // namespace tutti::store
