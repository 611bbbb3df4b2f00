#include "rendezvous/dialer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/system_error.hpp"
#include "bootstrap/job_secret.hpp"
#include "rendezvous/tcp_socket.hpp"
#include "rendezvous/unacknowledged.hpp"

namespace tutti::rendezvous {
namespace {

// The first round moves on quickly past an interface that swallows packets; later rounds give a
// slow host its time.
constexpr std::chrono::milliseconds first_patience{500};
constexpr std::chrono::milliseconds min_patience{50};
constexpr std::chrono::milliseconds first_round{2000};
constexpr int max_doublings = 4;
// Ranks that start together find nobody listening for a moment: the first pauses are
// short, and the rounds between them don't count.
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
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [this](const auto& one, const auto& other) { return experience(one) > experience(other); });
  const auto dial = dials_.insert(dials_.end(), Dial{.peer = peer,
                                                     .kind = kind,
                                                     .candidates = std::move(candidates),
                                                     .deadline = deadline,
                                                     .on_done = std::move(on_done),
                                                     .failures = std::vector<std::string>(count),
                                                     .socket = Descriptor()});
  if (count == 0) {
    dial->failures.emplace_back(
        "no address in common: it listens at none that this host could reach");
    return finish(dial, std::nullopt);
  }
  attempt(dial);
}

void Dialer::attempt(DialList::iterator dial) {
  if (dial->deadline.expired()) return finish(dial, std::nullopt);
  const auto& address = dial->candidates[dial->candidate];
  dial->socket = make_dialing_socket(address.family());
  if (!dial->socket) return fail_attempt(dial, errno_text(errno));
  // Loopback loses none.
  if (dial->kind == LinkKind::control && !address.is_loopback()) {
    keep_packets_small(dial->socket.get(), address.family());
  }
  if (const int error = bind_source(dial->socket.get(), address); error != 0) {
    return fail_attempt(dial, errno_text(error));
  }
  dial->state = State::connecting;
  dial->received = 0;
  const int result = ::connect(dial->socket.get(), address.get(), address.length());
  if (result != 0 && errno != EINPROGRESS) return fail_attempt(dial, errno_text(errno));
  // At once: as long as it is there, nobody can listen at the port.
  if (is_connected_to_itself(dial->socket.get())) return leave_itself(dial);
  const auto share = first_round / static_cast<int>(dial->candidates.size());
  const auto patience =
      std::clamp(share, min_patience, first_patience) * (1 << std::min(dial->round, max_doublings));
  set_timer(dial, patience, "no answer");
  reactor_.add(dial->socket.get(), EPOLLOUT, [this, dial](std::uint32_t) { on_ready(dial); });
}

void Dialer::leave_itself(DialList::iterator dial) {
  reactor_.remove(dial->socket.get());
  reset(dial->socket);
  fail_attempt(dial, "nobody listens there");
}

int Dialer::bind_source(int socket, const SocketAddress& target) const {
  if (target.is_loopback() || sources_.empty()) return 0;
  const Interface* source = nullptr;
  int of_family = 0;
  for (const auto& own : sources_) {
    if (own.address.family() != target.family() || own.address.is_loopback()) continue;
    ++of_family;
    const bool beside = own.address.shares_prefix(target, own.prefix_bits);
    if (beside) {
      source = &own;
      // Two interfaces may be in one network. Old kernels want a right for it: then the address
      // must do.
      ::setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, own.name.c_str(),
                   static_cast<socklen_t>(own.name.size()));
      break;
    }
    source = &own;
  }
  // Behind a router, several may lead there: the kernel knows better which.
  if (source == nullptr ||
      (of_family > 1 && !source->address.shares_prefix(target, source->prefix_bits))) {
    return 0;
  }
  auto address = source->address;
  address.set_port(0);
  // The port is chosen when the connection is made: then dials to several peers may share one.
  const int on = 1;
  ::setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  return ::bind(socket, address.get(), address.length()) == 0 ? 0 : errno;
}

int Dialer::experience(const SocketAddress& address) const {
  const auto found = experience_.find(address.host_text());
  return found == experience_.end() ? 0 : found->second;
}

void Dialer::learn(const SocketAddress& address, int answer) {
  experience_[address.host_text()] = answer;
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
        // The reactor's timers run while this process is stopped, the deadline may not.
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
      return shake_hands(dial);
    case State::idle:
      return;
  }
}

void Dialer::on_connected(DialList::iterator dial) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(dial->socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail_attempt(dial, errno_text(error));
  if (is_connected_to_itself(dial->socket.get())) return leave_itself(dial);
  send_without_delay(dial->socket.get());
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
  // The peer may count this link as made from now on: giving up and dialing again would be refused
  // as a second link.
  set_last_timer(dial, "it did not answer the proof");
}

void Dialer::on_answer(DialList::iterator dial) {
  if (receive(dial, dial->answer) != 1) return;
  if (!check_answer(self_, dial->peer, dial->hello, dial->proof, dial->answer)) {
    return fail_attempt(dial, "it does not know the job's secret");
  }
  if (!self_.tls) return succeed(dial);
  SecretMemory key(Tls::key_bytes);
  derive_key(self_, dial->peer, dial->hello, dial->proof, key.bytes());
  dial->tls = std::make_unique<Tls>(self_.tls, dial->socket.get(), Tls::Side::initiator,
                                    std::span<const std::byte, Tls::key_bytes>(key.bytes()));
  dial->state = State::encrypting;
  set_last_timer(dial, "it did not finish the TLS handshake");
  shake_hands(dial);
}

void Dialer::shake_hands(DialList::iterator dial) {
  const auto step = dial->tls->shake_hands();
  if (step == Tls::Step::done) return succeed(dial);
  if (step == Tls::Step::failed) fail_attempt(dial, std::string(dial->tls->trouble()));
}

void Dialer::succeed(DialList::iterator dial) {
  reactor_.cancel(dial->timer);
  reactor_.remove(dial->socket.get());
  learn(dial->candidates[dial->candidate], 1);
  finish(dial, Connection{SecureSocket(std::move(dial->socket), std::move(dial->tls)), dial->peer,
                          dial->kind});
}

void Dialer::fail_attempt(DialList::iterator dial, std::string reason) {
  if (const auto lost = find_unacknowledged(dial->socket.get())) {
    reason += fmt::format(", and {}", describe(*lost, own_host(), "it"));
  }
  disarm(*dial);
  const auto& address = dial->candidates[dial->candidate];
  if (dial->state == State::connecting && experience(address) == 0) learn(address, -1);
  dial->state = State::idle;
  dial->failures[dial->candidate] =
      fmt::format("{}: {}", dial->candidates[dial->candidate].text(), reason);
  dial->candidate = (dial->candidate + 1) % dial->candidates.size();
  if (dial->deadline.expired()) return finish(dial, std::nullopt);
  if (dial->candidate != 0) return attempt(dial);
  // All candidates have failed: a pause that grows, so that a refusing host is not hammered.
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
