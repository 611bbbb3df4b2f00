#include "rendezvous/dialer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/system_error.hpp"
#include "bootstrap/job_secret.hpp"
#include "rendezvous/tcp_socket.hpp"
#include "rendezvous/unacknowledged.hpp"

namespace tutti::rendezvous {
namespace {

// The first round moves on quickly from an interface that drops packets; later rounds allow for
// slow hosts.
constexpr std::chrono::milliseconds first_attempt_timeout{500};
constexpr std::chrono::milliseconds min_attempt_timeout{50};
constexpr std::chrono::milliseconds first_round_time{2000};
constexpr int max_doublings = 4;
// The peers of a rank that starts early do not listen yet: the first pauses are short, and their
// rounds do not count.
constexpr std::chrono::microseconds first_pause{250};
constexpr std::chrono::milliseconds short_pause{16};
constexpr std::chrono::milliseconds max_pause{320};

}  // namespace

Dialer::Dialer(Reactor& reactor, const Membership& self, std::vector<Interface> sources)
    : reactor_(reactor), self_(self), sources_(std::move(sources)) {}

Dialer::~Dialer() {
  for (auto& dial : dials_) disarm(dial);
}

void Dialer::dial(int peer, LinkKind kind, std::vector<SocketAddress> candidates, Deadline deadline,
                  OnDone on_done) {
  const auto count = candidates.size();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [this](const auto& one, const auto& other) {
                     return reachability(one) > reachability(other);
                   });
  const auto dial = dials_.insert(dials_.end(), Dial{.peer = peer,
                                                     .kind = kind,
                                                     .candidates = std::move(candidates),
                                                     .deadline = deadline,
                                                     .on_done = std::move(on_done),
                                                     .failures = std::vector<std::string>(count),
                                                     .socket = Descriptor()});
  if (count == 0) {
    dial->failures.emplace_back(
        "no address in common: it listens at no address that this host can reach");
    return finish(dial, std::nullopt);
  }
  attempt(dial);
}

Dialer::DialList::iterator Dialer::find(int peer, LinkKind kind) {
  return std::find_if(dials_.begin(), dials_.end(),
                      [&](const Dial& dial) { return dial.peer == peer && dial.kind == kind; });
}

void Dialer::cancel(int peer, LinkKind kind) {
  const auto dial = find(peer, kind);
  if (dial == dials_.end()) return;
  disarm(*dial);
  dials_.erase(dial);
}

bool Dialer::cancel_unaccepted(int peer, LinkKind kind) {
  const auto dial = find(peer, kind);
  // Once the proof is sent, the peer may consider the link established.
  if (dial == dials_.end() || dial->state == State::awaiting_answer ||
      dial->state == State::encrypting)
    return false;
  cancel(peer, kind);
  return true;
}

void Dialer::attempt(DialList::iterator dial) {
  if (dial->deadline.expired()) return finish(dial, std::nullopt);
  const auto& address = dial->candidates[dial->candidate];
  dial->socket = make_client_socket(address.family());
  if (!dial->socket) return fail_attempt(dial, errno_text(errno));
  // Loopback does not drop large packets.
  if (dial->kind == LinkKind::control && !address.is_loopback()) {
    limit_packet_size(dial->socket.get(), address.family());
  }
  if (const int error = bind_source(dial->socket.get(), sources_, address); error != 0) {
    return fail_attempt(dial, errno_text(error));
  }
  dial->state = State::connecting;
  dial->received = 0;
  const int result = ::connect(dial->socket.get(), address.get(), address.length());
  if (result != 0 && errno != EINPROGRESS) return fail_attempt(dial, errno_text(errno));
  // Check immediately: while this socket exists, no process can listen at the port.
  if (is_connected_to_itself(dial->socket.get())) return drop_self_connection(dial);
  const auto share = first_round_time / static_cast<int>(dial->candidates.size());
  const auto timeout = std::clamp(share, min_attempt_timeout, first_attempt_timeout) *
                       (1 << std::min(dial->round, max_doublings));
  set_timer(dial, timeout, "no answer");
  reactor_.add(dial->socket.get(), EPOLLOUT, [this, dial](std::uint32_t) { on_ready(dial); });
}

void Dialer::drop_self_connection(DialList::iterator dial) {
  reactor_.remove(dial->socket.get());
  reset(dial->socket);
  fail_attempt(dial, "no process listens at this port");
}

int Dialer::reachability(const SocketAddress& address) const {
  const auto found = reachability_.find(address.host_text());
  return found == reachability_.end() ? 0 : found->second;
}

void Dialer::set_reachability(const SocketAddress& address, int answer) {
  reachability_[address.host_text()] = answer;
}

void Dialer::set_timer(DialList::iterator dial, Reactor::Clock::duration delay,
                       std::string reason) {
  reactor_.cancel(dial->timer);
  delay = std::min<Reactor::Clock::duration>(delay, dial->deadline.remaining());
  dial->timer = reactor_.after(
      delay, [this, dial, reason = std::move(reason)] { fail_attempt(dial, reason); });
}

void Dialer::set_last_timer(DialList::iterator dial, std::string reason) {
  reactor_.cancel(dial->timer);
  dial->timer =
      reactor_.after(dial->deadline.remaining(), [this, dial, reason = std::move(reason)] {
        // The reactor's timers run while this process is stopped; the deadline may not.
        if (!dial->deadline.expired()) return set_last_timer(dial, reason);
        fail_attempt(dial, reason);
      });
}

void Dialer::on_ready(DialList::iterator dial) {
  switch (dial->state) {
    case State::connecting:
      return on_connected(dial);
    case State::awaiting_hello:
      return on_hello(dial);
    case State::awaiting_answer:
      return on_answer(dial);
    case State::encrypting:
      return handshake(dial);
    case State::idle:
      return;
  }
}

void Dialer::on_connected(DialList::iterator dial) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(dial->socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail_attempt(dial, errno_text(error));
  if (is_connected_to_itself(dial->socket.get())) return drop_self_connection(dial);
  set_no_delay(dial->socket.get());
  dial->state = State::awaiting_hello;
  reactor_.modify(dial->socket.get(), EPOLLIN);
}

int Dialer::receive(DialList::iterator dial, std::span<std::byte> out) {
  while (dial->received < out.size()) {
    const auto got =
        ::recv(dial->socket.get(), out.data() + dial->received, out.size() - dial->received, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (got <= 0) {
      fail_attempt(dial, got == 0 ? "it closed the connection" : errno_text(errno));
      return -1;
    }
    dial->received += static_cast<std::size_t>(got);
  }
  dial->received = 0;
  return 1;
}

void Dialer::on_hello(DialList::iterator dial) {
  if (receive(dial, dial->hello) != 1) return;
  Nonce nonce{};
  bootstrap::draw_random(nonce);
  const auto made = make_proof(self_, dial->peer, dial->kind, dial->hello, nonce);
  if (const auto* refused = std::get_if<Refused>(&made)) {
    return fail_attempt(dial, std::string(refused->reason));
  }
  dial->proof = std::get<Proof>(made);
  if (::send(dial->socket.get(), dial->proof.data(), proof_bytes, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(proof_bytes)) {
    return fail_attempt(dial, "it closed the connection");
  }
  dial->state = State::awaiting_answer;
  // The peer may consider this link established from now on and would refuse a second one, so there
  // is no retry before the deadline.
  set_last_timer(dial, "it did not answer the authentication request");
}

void Dialer::on_answer(DialList::iterator dial) {
  if (receive(dial, dial->answer) != 1) return;
  if (!check_answer(self_, dial->peer, dial->hello, dial->proof, dial->answer)) {
    return fail_attempt(dial, "authentication failed: it does not have the job's secret");
  }
  if (!self_.tls) return succeed(dial);
  SecretMemory key(Tls::key_bytes);
  derive_key(self_, dial->peer, dial->hello, dial->proof, key.bytes());
  dial->tls = std::make_unique<Tls>(self_.tls, dial->socket.get(), Tls::Side::initiator,
                                    std::span<const std::byte, Tls::key_bytes>(key.bytes()));
  dial->state = State::encrypting;
  set_last_timer(dial, "it did not finish the TLS handshake");
  handshake(dial);
}

void Dialer::handshake(DialList::iterator dial) {
  const auto step = dial->tls->handshake();
  if (step == Tls::Step::done) return succeed(dial);
  if (step == Tls::Step::failed) fail_attempt(dial, std::string(dial->tls->failure()));
}

void Dialer::succeed(DialList::iterator dial) {
  reactor_.cancel(dial->timer);
  reactor_.remove(dial->socket.get());
  set_reachability(dial->candidates[dial->candidate], 1);
  finish(dial, Connection{SecureSocket(std::move(dial->socket), std::move(dial->tls)), dial->peer,
                          dial->kind});
}

void Dialer::fail_attempt(DialList::iterator dial, std::string reason) {
  if (const auto lost = find_unacknowledged(dial->socket.get())) {
    reason += fmt::format(", and {}", describe(*lost, own_host(), "it"));
  }
  disarm(*dial);
  const auto& address = dial->candidates[dial->candidate];
  if (dial->state == State::connecting && reachability(address) == 0) set_reachability(address, -1);
  dial->state = State::idle;
  dial->failures[dial->candidate] =
      fmt::format("{}: {}", dial->candidates[dial->candidate].text(), reason);
  dial->candidate = (dial->candidate + 1) % dial->candidates.size();
  if (dial->deadline.expired()) return finish(dial, std::nullopt);
  if (dial->candidate != 0) return attempt(dial);
  // All candidates failed: back off exponentially.
  if (dial->pause > short_pause) ++dial->round;
  dial->pause = std::clamp<std::chrono::microseconds>(2 * dial->pause, first_pause, max_pause);
  dial->timer =
      reactor_.after(std::min<Reactor::Clock::duration>(dial->pause, dial->deadline.remaining()),
                     [this, dial] { attempt(dial); });
}

void Dialer::finish(DialList::iterator dial, std::optional<Connection> connection) {
  std::erase(dial->failures, std::string());
  const auto failure =
      connection ? std::string() : fmt::format("{}", fmt::join(dial->failures, "; "));
  const auto on_done = std::move(dial->on_done);
  dials_.erase(dial);
  on_done(std::move(connection), failure);
}

void Dialer::disarm(Dial& dial) {
  reactor_.cancel(dial.timer);
  if (dial.socket) reactor_.remove(dial.socket.get());
  dial.tls.reset();
  dial.socket.reset();
}

}  // namespace tutti::rendezvous
