#include "transport/tcp_links.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/system_error.hpp"
#include "congestion.hpp"

namespace tutti::transport {
namespace {

// The resolution of epoll_wait().
constexpr std::chrono::milliseconds min_epoll_sleep{1};
static_assert(min_epoll_sleep >= max_store_delay);
constexpr std::chrono::milliseconds linger_limit{500};

constexpr std::uint64_t wakeup_token = UINT64_MAX;

constexpr std::uint64_t token(int peer, bool is_outgoing) {
  return static_cast<std::uint64_t>(peer) << 1 | static_cast<std::uint64_t>(is_outgoing);
}

}  // namespace

TcpLinks::TcpLinks(const control::FailureDetector& detector, control::Connector& connector,
                   const Wakeup& wakeup, CallInspector& inspector, Settings settings)
    : detector_(detector),
      connector_(connector),
      wakeup_(wakeup),
      inspector_(inspector),
      settings_(std::move(settings)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  require_congestion(settings_.congestion);
  if (!epoll_) throw system_error("can't create an epoll instance", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wakeup_token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.fd(), &event) != 0) {
    throw system_error("can't add the wake-up descriptor to epoll", errno);
  }
}

TcpLinks::~TcpLinks() {
  const auto deadline = Deadline::after(linger_limit);
  const auto all = [this](auto is_done) {
    return std::all_of(outgoing_.begin(), outgoing_.end(),
                       [&](const auto& entry) { return is_done(entry.second); });
  };
  try {
    for (const auto& [peer, half] : outgoing_) half.shut_down();
    // Closing a socket with unread bytes resets it, and a reset discards data in flight.
    while (!detector_.job_failed() && !deadline.expired() &&
           !all([](const OutgoingHalf& half) { return half.unacknowledged() == 0; })) {
      for (auto& [peer, half] : outgoing_) half.discard_input();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  } catch (const std::exception&) {
    // The system refuses even to wait: the peers see closed links.
  }
  connector_.data_sockets().clear();
}

void TcpLinks::abandon() {
  const std::string reason = "an earlier call has failed";
  for (auto& [peer, half] : outgoing_) {
    half.abandon(reason);
    update_watch(half, peer, true);
  }
  for (auto& [peer, half] : incoming_) {
    half.abandon(reason);
    update_watch(half, peer, false);
  }
}

/// The same at both ends.
std::size_t TcpLinks::eager_bytes(int peer) const {
  return detector_.peers().on_this_host(peer) ? settings_.eager_bytes : settings_.far_eager_bytes;
}

OutgoingHalf& TcpLinks::outgoing(int peer) {
  const auto [found, is_new] = outgoing_.try_emplace(peer, peer, eager_bytes(peer), inspector_);
  if (is_new && settings_.faults != nullptr) {
    found->second.limit_writes(settings_.faults->max_written_bytes());
  }
  return found->second;
}

OutgoingHalf& TcpLinks::dialed(int peer) {
  const bool is_new = !outgoing_.contains(peer);
  auto& half = outgoing(peer);
  if (is_new) connector_.request(peer, detector_.deadline(settings_.connect_timeout));
  return half;
}

IncomingHalf& TcpLinks::incoming(int peer) {
  const auto [found, is_new] = incoming_.try_emplace(peer, peer, eager_bytes(peer), inspector_);
  if (is_new && settings_.faults != nullptr) {
    found->second.limit_writes(settings_.faults->max_written_bytes());
  }
  return found->second;
}

void TcpLinks::post(SendRequest& request) {
  auto& half = dialed(request.peer);
  half.post(request);
  half.write();
  update_watch(half, request.peer, true);
}

void TcpLinks::post(RecvRequest& request) {
  auto& half = incoming(request.peer);
  half.post(request);
  update_watch(half, request.peer, false);
}

bool TcpLinks::try_send(int to, const CallContext& call, std::span<const std::byte> bytes) {
  const auto found = outgoing_.find(to);
  if (found == outgoing_.end() || has_links_to_drop()) return false;
  return found->second.try_send(call, bytes);
}

Receipt TcpLinks::try_receive(int from, const CallContext& call, std::span<std::byte> bytes) {
  const auto found = incoming_.find(from);
  if (found == incoming_.end() || has_links_to_drop()) return Receipt::refused;
  const auto receipt = found->second.try_receive(call, bytes);
  if (receipt == Receipt::taken) wait_.reset();
  return receipt;
}

bool TcpLinks::has_arrived(int from, const StreamKey& key) {
  const auto found = incoming_.find(from);
  return found != incoming_.end() && found->second.has_arrived(key);
}

void TcpLinks::finish_collective(const StreamKey& key) {
  for (auto& [peer, half] : outgoing_) half.finish(key);
  for (auto& [peer, half] : incoming_) {
    half.finish(key);
    update_watch(half, peer, false);
  }
}

void TcpLinks::finish_sent(const StreamKey& key, int to) {
  if (const auto found = outgoing_.find(to); found != outgoing_.end()) found->second.finish(key);
}

void TcpLinks::finish_received(const StreamKey& key, int from) {
  const auto found = incoming_.find(from);
  if (found == incoming_.end()) return;
  found->second.finish(key);
  update_watch(found->second, from, false);
}

template <class Half>
void TcpLinks::update_watch(Half& half, int peer, bool is_outgoing) {
  if (shares_connection(peer)) return update_shared_watch(peer);
  // With rings the socket is a doorbell only, and is watched since it was connected.
  if (half.has_rings() && !half.is_over()) return;
  std::uint32_t wanted = half.wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (half.is_over()) wanted = 0;
  set_watch(half.fd(), peer, is_outgoing, wanted);
}

void TcpLinks::update_shared_watch(int peer) {
  // Not incoming() and outgoing(): a half that is made here would never be connected.
  const auto in = incoming_.find(peer);
  if (in == incoming_.end() || !in->second.connected()) return;
  const auto& out = outgoing_.at(peer);
  std::uint32_t wanted = 0;
  if (!in->second.is_over()) wanted |= EPOLLIN;
  if (out.wants_to_write() && !out.is_over()) wanted |= EPOLLOUT;
  set_watch(out.fd(), peer, false, wanted);
}

void TcpLinks::set_watch(int fd, int peer, bool is_outgoing, std::uint32_t wanted) {
  const auto found = watched_.find({peer, is_outgoing});
  if (found == watched_.end() || found->second == wanted) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = token(peer, is_outgoing);
  // A broken socket is always ready: remove it, or epoll_wait() would never block.
  const int operation = wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  ::epoll_ctl(epoll_.get(), operation, fd, &event);
  if (wanted == 0) {
    watched_.erase(found);
  } else {
    found->second = wanted;
  }
}

void TcpLinks::watch(int fd, int peer, bool is_outgoing) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token(peer, is_outgoing);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw system_error("can't add a data connection to epoll", errno);
  }
  watched_[{peer, is_outgoing}] = EPOLLIN;
}

void TcpLinks::take_connections() {
  for (auto& arrival : connector_.take()) {
    const int peer = arrival.connection.peer;
    if (!arrival.connection.socket) {
      outgoing(peer).fail(arrival.failure);
      continue;
    }
    const int fd = arrival.connection.socket.get();
    tune_socket(fd, settings_.congestion);
    if (shares_connection(peer)) {
      connect_both(std::move(arrival.connection.socket), peer);
      continue;
    }
    if (arrival.dialed_here) {
      auto& half = outgoing(peer);
      half.connect(endpoint_to(std::move(arrival.connection.socket), peer));
      connector_.data_sockets().add(peer, fd);
      if (half.has_rings()) ringed_outgoing_.emplace_back(peer, &half);
    } else {
      incoming(peer).connect(endpoint_from(std::move(arrival.connection.socket), peer));
    }
    watch(fd, peer, arrival.dialed_here);
    if (arrival.dialed_here) {
      outgoing(peer).write();
      update_watch(outgoing(peer), peer, true);
    } else {
      update_watch(incoming(peer), peer, false);
    }
  }
}

void TcpLinks::connect_both(rendezvous::SecureSocket socket, int peer) {
  auto& out = outgoing(peer);
  auto& in = incoming(peer);
  if (out.connected()) return;
  const int fd = socket.get();
  limit_unsent(fd);
  out.connect({std::move(socket)});
  watch(fd, peer, false);
  connector_.data_sockets().add(peer, fd);
  in.share_connection(out);
  out.write();
  update_shared_watch(peer);
}

bool TcpLinks::shares_connection(int peer) const {
  return !detector_.peers().on_this_host(peer);
}

bool TcpLinks::shares_memory_with(int peer) const {
  return settings_.segment && detector_.peers().on_this_host(peer);
}

/// Returns null on failure: a sender then uses the socket.
std::unique_ptr<LinkMemory> TcpLinks::link_memory(int from, int to) const {
  try {
    return std::make_unique<LinkMemory>(settings_.segment, from, to);
  } catch (const Error&) {
    return nullptr;
  }
}

LinkEndpoint TcpLinks::endpoint_to(rendezvous::SecureSocket socket, int peer) const {
  if (!shares_memory_with(peer)) return {std::move(socket)};
  return LinkEndpoint::dialed(
      std::move(socket),
      link_memory(settings_.segment->local_rank(), detector_.peers().place_of(peer).local_rank));
}

LinkEndpoint TcpLinks::endpoint_from(rendezvous::SecureSocket socket, int peer) const {
  if (!shares_memory_with(peer)) return {std::move(socket)};
  return LinkEndpoint::accepted(
      std::move(socket),
      link_memory(detector_.peers().place_of(peer).local_rank, settings_.segment->local_rank()));
}

template <class Half>
bool TcpLinks::serve(Half& half, int peer, bool is_outgoing) {
  bool moved = half.read();
  moved |= half.write();
  update_watch(half, peer, is_outgoing);
  return moved || half.is_over();
}

bool TcpLinks::serve_shared(int peer) {
  auto& in = incoming(peer);
  auto& out = outgoing(peer);
  bool moved = in.read();
  // The peer reads nothing more either, and nobody reads its replies. After a mismatch nobody does
  // so either, but the job ends anyway.
  if (!in.failure().empty()) out.fail(in.failure());
  moved |= out.write();
  update_shared_watch(peer);
  return moved || in.is_over();
}

/// Rings raise no events.
bool TcpLinks::poll_rings() {
  bool moved = false;
  for (const auto& [peer, half] : ringed_outgoing_) {
    if (half->has_ring_work()) moved |= serve(*half, peer, true);
  }
  for (const auto& [peer, half] : ringed_incoming_) {
    if (half->has_ring_work()) moved |= serve(*half, peer, false);
  }
  return moved;
}

/// Peers that write into a ring meanwhile wake this rank.
bool TcpLinks::wait_for_events(std::chrono::nanoseconds limit) {
  if (ringed_outgoing_.empty() && ringed_incoming_.empty())
    return poll_sockets(limit) == Events::data;
  auto& asleep = settings_.segment->sleeps_in_epoll(settings_.segment->local_rank());
  asleep.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Check again after max_store_delay: a peer's earlier writes may become visible late. A rank
  // woken before that returns here and sets the flag again, since the waker has reset it.
  const auto first = std::min<std::chrono::nanoseconds>(limit, min_epoll_sleep);
  auto found = poll_rings() ? Events::data : poll_sockets(first);
  if (found == Events::timeout && limit > first) {
    found = poll_rings() ? Events::data : poll_sockets(limit - first);
  }
  asleep.store(0, std::memory_order_relaxed);
  return found == Events::data;
}

/// Waits for events, up to `limit`, and handles them.
TcpLinks::Events TcpLinks::poll_sockets(std::chrono::nanoseconds limit) {
  std::array<epoll_event, 32> events;
  // Rounded up to milliseconds: sleeping too long is harmless, spinning is not.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::min<std::int64_t>(wait, 1000)));
  if (count < 0 && errno != EINTR) throw system_error("epoll_wait() failed", errno);
  if (count == 0) return Events::timeout;
  bool moved = false;
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == wakeup_token) {
      wakeup_.clear();
      take_connections();
      moved = true;
      continue;
    }
    const int peer = static_cast<int>(event.data.u64 >> 1);
    if (shares_connection(peer)) {
      moved |= serve_shared(peer);
      continue;
    }
    if ((event.data.u64 & 1U) != 0) {
      auto& half = outgoing(peer);
      half.on_socket_event();
      moved |= serve(half, peer, true);
    } else {
      auto& half = incoming(peer);
      const bool had_rings = half.has_rings();
      half.on_socket_event();
      moved |= serve(half, peer, false);
      if (!had_rings && half.has_rings()) ringed_incoming_.emplace_back(peer, &half);
    }
  }
  return moved ? Events::data : Events::no_data;
}

bool TcpLinks::has_links_to_drop() const {
  return settings_.faults != nullptr &&
         (settings_.faults->has_link_to_drop() || !links_to_drop_.empty());
}

/// Injected fault. Shuts down an existing link in both directions, or a future one once it is
/// connected.
void TcpLinks::drop_link_if_due() {
  for (int peer = 0; (peer = settings_.faults->take_link_to_drop()) >= 0;) {
    links_to_drop_.insert(peer);
  }
  const auto shut = [](auto& halves, int peer) {
    const auto found = halves.find(peer);
    if (found == halves.end() || !found->second.connected()) return false;
    ::shutdown(found->second.fd(), SHUT_RDWR);
    return true;
  };
  std::erase_if(links_to_drop_, [&](int peer) {
    const bool out = shut(outgoing_, peer);
    const bool in = shut(incoming_, peer);
    return out || in;
  });
}

bool TcpLinks::progress(std::chrono::nanoseconds limit) {
  if (settings_.faults != nullptr) drop_link_if_due();
  if (!may_spin_) {
    wait_.reset();
    return wait_for_events(limit);
  }
  const bool has_rings = !ringed_outgoing_.empty() || !ringed_incoming_.empty();
  bool moved = poll_rings();
  // Links with rings watch their sockets, too.
  const bool has_sockets = watched_.size() > ringed_outgoing_.size() + ringed_incoming_.size();
  const int polls = has_rings ? settings_.waits.ring_polls(has_sockets) : 1;
  for (int i = 1; !moved && i < polls; ++i) {
    pause_briefly();
    moved = poll_rings();
  }
  if (!has_rings || has_sockets || ++turns_ % WaitPolicy::turns_per_socket_poll == 0)
    moved |= poll_sockets(std::chrono::nanoseconds(0)) == Events::data;
  if (moved) {
    wait_.reset();
    return true;
  }
  if (limit <= std::chrono::nanoseconds(0)) return false;  // the caller waits elsewhere
  if (wait_.may_poll(settings_.waits.links(has_rings))) return false;
  moved = wait_for_events(limit);
  if (moved) wait_.reset();
  return moved;
}

LinkState TcpLinks::state(int peer, bool receiving) const {
  const auto of = [peer](const auto& halves) -> LinkState {
    const auto found = halves.find(peer);
    if (found == halves.end()) return {};
    return {found->second.connected(), found->second.failure()};
  };
  return receiving ? of(incoming_) : of(outgoing_);
}

}  // namespace tutti::transport
