#include "store/root_side.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/bytes.hpp"
#include "base/remedies.hpp"
#include "base/system_error.hpp"
#include "rendezvous/open_files.hpp"
#include "rendezvous/port_holder.hpp"
#include "rendezvous/tcp_socket.hpp"
#include "rendezvous/unacknowledged.hpp"

namespace tutti::store {
namespace {

using rendezvous::Listener;
using rendezvous::SocketAddress;

// Time to send the final error to members.
constexpr std::chrono::milliseconds flush_timeout{300};
constexpr std::chrono::seconds busy_port_timeout{1};

/// Returns 0 or an errno.
int listen_at(const SocketAddress& address, Listener& listener) {
  constexpr int backlog = 1024;
  Descriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket) return errno;
  const int on = 1;
  // Connections of the previous job may still be in TIME-WAIT at this port.
  rendezvous::set_reuse_address(socket.get());
  if (address.family() == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (::bind(socket.get(), address.get(), address.length()) != 0) return errno;
  if (::listen(socket.get(), backlog) != 0) return errno;
  listener = {std::move(socket), address};
  listener.socket.close_on_fork();
  return 0;
}

struct Attempt {
  std::vector<Listener> listeners;
  int error = 0;
  std::string failure;
  SocketAddress where;  ///< address of the failure
};

/// Listens at each address; families that this host does not support are skipped.
Attempt listen_at_all(const std::vector<SocketAddress>& addresses, std::uint16_t port) {
  Attempt result;
  for (auto address : addresses) {
    address.set_port(port);
    Listener listener;
    const int error = listen_at(address, listener);
    if (error == 0) {
      result.listeners.push_back(std::move(listener));
      continue;
    }
    if (result.error != EADDRINUSE) {
      result.error = error;
      result.failure = fmt::format("{}: {}", address.text(), errno_text(error));
      result.where = address;
    }
  }
  const bool no_family = result.error == EAFNOSUPPORT || result.error == EADDRNOTAVAIL;
  if (!result.listeners.empty() && no_family) result.error = 0;
  return result;
}

/// The owner of the port and the remedy.
std::string remedy_for_busy(const SocketAddress& address) {
  const auto unsafe = rendezvous::ephemeral_port_warning(address.port());
  return fmt::format("{}: use another port{}", rendezvous::describe_holder(address),
                     unsafe.empty() ? "" : "; " + unsafe);
}

std::vector<Listener> listen(const StoreAddress& store_address,
                             const std::vector<SocketAddress>& addresses, Deadline deadline) {
  const auto retry_deadline = deadline.within(busy_port_timeout);
  while (true) {
    Attempt attempt;
    for (int i = 0; i < store_address.ports; ++i) {
      attempt = listen_at_all(addresses, static_cast<std::uint16_t>(store_address.port + i));
      if (attempt.error == 0) return std::move(attempt.listeners);
    }
    // The previous job, or an outgoing connection that got this port, may free it soon.
    if (attempt.error == EADDRINUSE && !retry_deadline.expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    const std::string remedy = attempt.error == EADDRINUSE ? remedy_for_busy(attempt.where)
                               : attempt.error == EADDRNOTAVAIL
                                   ? "rank 0 must run on the host that has this address"
                                   : "use an address and a port at which rank 0 may listen";
    throw Error(ErrorCode::system,
                fmt::format("rank 0 can't listen at {}; {} ({})", attempt.failure, remedy,
                            store_address.source),
                {0});
  }
}

/// Checked before ranks join: rank 0 has a connection to each of them until set-up is over.
void require_files(int size) {
  constexpr std::uint64_t spare = 16;  // connections in their handshake, the listener, epoll
  const auto limit = rendezvous::raised_file_limit();
  const auto open = rendezvous::count_open_files();
  const auto needed = open + static_cast<std::uint64_t>(size) + spare;
  if (limit == 0 || limit >= needed) return;
  throw Error(ErrorCode::system,
              fmt::format("rank 0 may open {} files and has {} open, but needs {} more to "
                          "set up {} ranks: raise its limit with ulimit -n {}",
                          limit, open, needed - open, size, needed),
              {0});
}

}  // namespace

RootSide::RootSide(rendezvous::Membership self, int size, const StoreAddress& store_address,
                   const std::vector<SocketAddress>& addresses, Log& log, Deadline deadline)
    : self_(std::move(self)), size_(size), where_(store_address.text()), setup_(deadline) {
  // First: a rank that finds no listener sleeps before it dials again.
  auto listeners = listen(store_address, addresses, deadline);
  require_files(size);
  where_ = listeners.front().address.text();
  acceptor_ = std::make_unique<rendezvous::Acceptor>(
      reactor_, self_, std::move(listeners), log,
      [](int from, rendezvous::LinkKind kind) {
        return from > 0 && kind == rendezvous::LinkKind::control;
      },
      [this](rendezvous::Connection connection) { on_connection(std::move(connection)); });
  wait([this](int rank) { return members_.contains(rank) && members_[rank].join; }, deadline);
  send_to_all(StoreOperation::welcome, {});
}

void RootSide::on_connection(rendezvous::Connection connection) {
  const int rank = connection.peer;
  members_[rank].channel = std::make_unique<Channel>(
      reactor_, std::move(connection.socket).take_socket(), max_contribution,
      [this, rank](StoreMessage message) { on_message(rank, std::move(message)); },
      [this, rank](const std::string& reason) { on_closed(rank, reason); });
}

void RootSide::on_message(int rank, StoreMessage message) {
  ++messages_;
  auto& member = members_[rank];
  const auto left = std::chrono::milliseconds(message.timeout_ms);
  if (message.kind == StoreMessageKind::join && !member.join &&
      message.payload.size() <= max_join) {
    member.join = JoinRequest::decode(message.payload);
    member.deadline = setup_.anew(left);
    if (member.join->size == static_cast<std::uint32_t>(size_)) return;
    failure_ = Error(ErrorCode::mismatch,
                     fmt::format("{} was started with {} ranks and rank 0 with {}: "
                                 "start all with the same number",
                                 describe(rank), member.join->size, size_),
                     {0, rank});
    return;
  }
  if (message.kind != StoreMessageKind::contribution || !member.join || member.contribution) {
    failure_ = Error(ErrorCode::mismatch,
                     fmt::format("{} sent an unexpected message during set-up: it runs another "
                                 "version of tutti",
                                 describe(rank)),
                     {rank});
    return;
  }
  member.deadline = setup_.anew(left);
  member.contribution = std::move(message);
}

void RootSide::on_closed(int rank, const std::string& reason) {
  if (failure_) return;
  failure_ = Error(
      ErrorCode::peer_lost,
      fmt::format("{} ended during set-up ({}): check its own message", describe(rank), reason),
      {rank});
}

std::string RootSide::describe(int rank) const {
  const auto found = members_.find(rank);
  if (found == members_.end() || !found->second.join) return fmt::format("rank {}", rank);
  return found->second.join->describe(rank);
}

template <class IsReady>
void RootSide::wait(IsReady is_ready, Deadline deadline) {
  // Members join in any order; each is checked until it is ready.
  int first_missing = 1;
  while (true) {
    if (failure_) fail(*failure_);
    while (first_missing < size_ && is_ready(first_missing)) ++first_missing;
    if (first_missing == size_) return;
    auto earliest = deadline;
    for (const auto& [rank, member] : members_) {
      if (!member.deadline.is_never()) earliest = earliest.within(member.deadline.remaining());
    }
    if (earliest.expired()) {
      std::vector<int> ranks;
      for (int rank = first_missing; rank < size_; ++rank) {
        if (!is_ready(rank)) ranks.push_back(rank);
      }
      fail(missing(ranks));
    }
    reactor_.run_once(earliest.poll_interval());
  }
}

Error RootSide::missing(const std::vector<int>& ranks) const {
  constexpr std::size_t max_named = 16;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(ranks.size(), max_named); ++i) {
    named.push_back(describe(ranks[i]));
  }
  if (ranks.size() > max_named) named.push_back("…");
  return Error(ErrorCode::timeout,
               fmt::format("set-up timed out at {} with {} of {} ranks; {} missing: {}; start "
                           "every rank, see the messages of the missing ranks, or {}{}",
                           where_, static_cast<std::size_t>(size_) - ranks.size(), size_,
                           ranks.size(), fmt::join(named, ", "), longer_timeout_remedy,
                           rendezvous::describe_unacknowledged_data()),
               ranks);
}

void RootSide::fail(const Error& error) {
  failure_ = error;
  const auto payload = std::make_shared<const Bytes>(encode(error));
  for (auto& [rank, member] : members_)
    member.channel->send({.kind = StoreMessageKind::failure}, payload);
  const auto until = Deadline::after(flush_timeout);
  const auto flushed = [](const auto& entry) { return entry.second.channel->flushed(); };
  while (!until.expired() && !std::all_of(members_.begin(), members_.end(), flushed)) {
    reactor_.run_once(until.remaining());
  }
  throw error;
}

void RootSide::send_to_all(StoreOperation operation, const Bytes& payload) {
  const auto shared = std::make_shared<const Bytes>(payload);
  const StoreMessage header{
      .kind = StoreMessageKind::result, .operation = operation, .round = round_};
  for (auto& [rank, member] : members_) {
    member.channel->send(header, shared);
    ++messages_;
  }
}

Bytes RootSide::exchange(StoreOperation operation, const Bytes& mine, int root, Deadline deadline) {
  ++round_;
  for (auto& [rank, member] : members_) member.deadline = Deadline::never();
  wait(
      [&](int rank) {
        return !contributes(operation, rank, root) || members_[rank].contribution.has_value();
      },
      deadline);
  for (auto& [rank, member] : members_) {
    if (!member.contribution) continue;
    if (member.contribution->round != round_ || member.contribution->operation != operation) {
      fail(Error(ErrorCode::mismatch,
                 fmt::format("{} is at another step of set-up than rank 0: it runs another version "
                             "of tutti",
                             describe(rank)),
                 {rank}));
    }
  }
  Bytes result;
  if (operation == StoreOperation::all_gather) {
    ByteWriter writer;
    writer.put(static_cast<std::uint32_t>(mine.size())).put(mine);
    for (const auto& [rank, member] : members_) {
      const auto& bytes = member.contribution->payload;
      writer.put(static_cast<std::uint32_t>(bytes.size())).put(bytes);
    }
    result = std::move(writer).bytes();
  } else if (operation == StoreOperation::broadcast) {
    result = root == 0 ? mine : members_[root].contribution->payload;
  }
  for (auto& [rank, member] : members_) member.contribution.reset();
  send_to_all(operation, result);
  // Large results exceed the socket buffers and are sent only within this call.
  const auto flushed = [](const auto& entry) { return entry.second.channel->flushed(); };
  while (!std::all_of(members_.begin(), members_.end(), flushed)) {
    if (failure_) fail(*failure_);
    if (deadline.expired()) {
      std::vector<int> ranks;
      for (const auto& [rank, member] : members_) {
        if (!member.channel->flushed()) ranks.push_back(rank);
      }
      fail(missing(ranks));
    }
    reactor_.run_once(deadline.poll_interval());
  }
  return result;
}

}  // namespace tutti::store
