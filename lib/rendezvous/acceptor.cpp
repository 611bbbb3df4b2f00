#include "rendezvous/acceptor.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "base/system_error.hpp"
#include "bootstrap/job_secret.hpp"
#include "rendezvous/tcp_socket.hpp"

namespace tutti::rendezvous {

Acceptor::Acceptor(Reactor& reactor, const Membership& self, std::vector<Listener> listeners,
                   Log& log, std::function<bool(int, LinkKind)> expects,
                   std::function<void(Connection)> on_connection)
    : reactor_(reactor),
      self_(self),
      listeners_(std::move(listeners)),
      log_(log),
      expects_(std::move(expects)),
      on_connection_(std::move(on_connection)) {
  for (const auto& listener : listeners_) {
    const int fd = listener.socket.get();
    reactor_.add(fd, EPOLLIN, [this, fd](std::uint32_t) { on_listener_ready(fd); });
  }
}

Acceptor::~Acceptor() {
  for (const auto timer : pauses_) reactor_.cancel(timer);
  for (const auto& listener : listeners_) reactor_.remove(listener.socket.get());
  for (auto& pending : pending_) {
    reactor_.cancel(pending.timer);
    reactor_.remove(pending.socket.get());
  }
  for (auto& pending : encrypting_) reactor_.remove(pending.socket.get());
}

std::vector<Listener> Acceptor::take_listeners() {
  for (const auto timer : pauses_) reactor_.cancel(timer);
  pauses_.clear();
  for (const auto& listener : listeners_) reactor_.remove(listener.socket.get());
  return std::exchange(listeners_, {});
}

void Acceptor::on_listener_ready(int listener) {
  constexpr int max_accepts = 16;  // a flood of connections must not starve other events
  for (int i = 0; i < max_accepts; ++i) {
    Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        log_.warning(
            fmt::format("can't accept a connection ({}): raise the limit on open "
                        "files (ulimit -n)",
                        errno_text(errno)));
        pause(listener);
      }
      return;
    }
    socket.close_on_fork();
    send_hello(std::move(socket));
  }
}

/// Without free descriptors epoll would report the listener again at once; retry later.
void Acceptor::pause(int listener) {
  reactor_.modify(listener, 0);
  auto id = std::make_shared<Reactor::TimerId>();
  *id = reactor_.after(std::chrono::milliseconds(100), [this, listener, id] {
    pauses_.erase(*id);
    reactor_.modify(listener, EPOLLIN);
  });
  pauses_.insert(*id);
}

void Acceptor::send_hello(Descriptor socket) {
  if (pending_.size() >= max_pending) {
    drop(pending_.begin(), "too many unauthenticated connections");
  }
  set_no_delay(socket.get());
  Nonce nonce{};
  bootstrap::draw_random(nonce);
  const auto pending = pending_.insert(pending_.end(), Pending{});
  pending->socket = std::move(socket);
  pending->hello = make_hello(nonce);
  const int fd = pending->socket.get();
  pending->timer = reactor_.after(handshake_timeout, [this, pending] {
    drop(pending, "it did not complete the handshake in time");
  });
  reactor_.add(fd, EPOLLIN, [this, pending](std::uint32_t) { on_pending_ready(pending); });
  // The send buffer of a new socket holds 40 bytes, so a short write means an error.
  if (::send(fd, pending->hello.data(), hello_bytes, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(hello_bytes)) {
    drop(pending, "it closed the connection during the handshake");
  }
}

void Acceptor::on_pending_ready(PendingList::iterator pending) {
  if (pending->tls) return handshake(pending);
  while (pending->received < proof_bytes) {
    const auto got = ::recv(pending->socket.get(), pending->proof.data() + pending->received,
                            proof_bytes - pending->received, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return drop(pending, "it closed the connection during the handshake");
    pending->received += static_cast<std::size_t>(got);
  }
  authenticate(pending);
}

void Acceptor::authenticate(PendingList::iterator pending) {
  const auto checked = check_proof(self_, pending->hello, pending->proof);
  if (const auto* refused = std::get_if<Refused>(&checked)) return drop(pending, refused->reason);
  pending->authenticated = std::get<AuthenticatedPeer>(checked);
  const auto& authenticated = pending->authenticated;
  if (!expects_(authenticated.from, authenticated.kind)) {
    return drop(pending, "no link of this kind is expected from that rank now");
  }
  if (!linked_.emplace(authenticated.from, authenticated.kind).second) {
    return drop(pending, "that rank already has a link of this kind");
  }
  if (::send(pending->socket.get(), authenticated.answer.data(), answer_bytes, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(answer_bytes)) {
    linked_.erase({authenticated.from, authenticated.kind});
    return drop(pending, "it closed the connection during the handshake");
  }
  reactor_.cancel(pending->timer);
  if (self_.tls) return encrypt(pending);
  finish(pending);
}

/// An authenticated peer has no timeout, and unauthenticated connections cannot evict it: it
/// considers the link established and would not dial again.
void Acceptor::encrypt(PendingList::iterator pending) {
  SecretMemory key(Tls::key_bytes);
  derive_key(self_, pending->authenticated.from, pending->hello, pending->proof, key.bytes());
  pending->tls = std::make_unique<Tls>(self_.tls, pending->socket.get(), Tls::Side::responder,
                                       std::span<const std::byte, Tls::key_bytes>(key.bytes()));
  encrypting_.splice(encrypting_.end(), pending_, pending);
  handshake(pending);
}

void Acceptor::handshake(PendingList::iterator pending) {
  const auto step = pending->tls->handshake();
  if (step == Tls::Step::wait) return;
  if (step == Tls::Step::done) return finish(pending);
  linked_.erase({pending->authenticated.from, pending->authenticated.kind});
  const auto failure = pending->tls->failure();
  drop(pending, failure);
}

void Acceptor::finish(PendingList::iterator pending) {
  reactor_.remove(pending->socket.get());
  Connection connection{SecureSocket(std::move(pending->socket), std::move(pending->tls)),
                        pending->authenticated.from, pending->authenticated.kind};
  (self_.tls ? encrypting_ : pending_).erase(pending);
  on_connection_(std::move(connection));
}

void Acceptor::drop(PendingList::iterator pending, std::string_view reason) {
  reactor_.cancel(pending->timer);
  reactor_.remove(pending->socket.get());
  (pending->tls ? encrypting_ : pending_).erase(pending);
  const auto now = Reactor::Clock::now();
  if (now < next_log_line_) return;
  next_log_line_ = now + std::chrono::seconds(1);
  log_.info(fmt::format("dropped a connection: {}", reason));
}

}  // namespace tutti::rendezvous
