#include "worker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "control/topology.hpp"
#include "record.hpp"

namespace tutti::control {
namespace {

// Merges simultaneous deaths into one report; short against the second within which all ranks must
// know.
constexpr std::chrono::milliseconds gather_delay{10};
// Maximum time for an answer of a running rank on a host that is not overloaded. Slower ranks
// receive the agreed failure later.
constexpr std::chrono::milliseconds response_timeout{50};
// Interval of periodic work, and the duration after which a rank sends its current call to its
// neighbours.
constexpr std::chrono::milliseconds tick_interval{50};
// Links take milliseconds. A neighbour without one after this delay may have ended before.
constexpr std::chrono::milliseconds probe_delay{1000};
constexpr std::size_t max_calls_sent = 16;

Bytes encode_report(const FailureReport& report) {
  ByteWriter writer;
  report.encode(writer);
  return std::move(writer).bytes();
}

}  // namespace

Plane::Worker::Worker(Plane& plane, rendezvous::PeerExchange exchanged,
                      const Environment& environment, Log& log)
    : plane_(plane),
      log_(log),
      keepalive_(environment.keepalive),
      peers_(std::move(exchanged.peers)),
      self_(exchanged.self),
      acceptor_(
          reactor_, self_, std::move(exchanged.listeners), log,
          [this](int from, rendezvous::LinkKind kind) {
            return kind == rendezvous::LinkKind::data ||
                   (from < peers_.rank() && is_neighbour(from, peers_.rank(), peers_.size()));
          },
          [this](rendezvous::Connection connection) { on_connection(std::move(connection)); }),
      dialer_(reactor_, self_, std::move(exchanged.sources)),
      router_(peers_.rank(), peers_.size(),
              {.linked =
                   [this] {
                     std::vector<int> open;
                     for (const auto& [peer, link] : links_) {
                       if (link->is_open()) open.push_back(peer);
                     }
                     return open;
                   },
               .pass =
                   [this](int neighbour, const ControlMessage& message) {
                     links_.at(neighbour)->send(message.encode());
                   },
               .deliver =
                   [this](const ControlMessage& message) {
                     on_message(message);
                     // It may concern the last rank that this one waits for; once all others have
                     // left, no agreement will report that.
                     check_all_left();
                   }}),
      consensus_(peers_.rank(), peers_.size(), make_outbox()),
      neighbours_(neighbours(peers_.rank(), peers_.size())) {}

Consensus::Outbox Plane::Worker::make_outbox() {
  return {
      .send_evidence =
          [this](const FailureReport& report) {
            router_.send(ControlMessageKind::evidence, all_ranks, encode_report(report));
          },
      .propose =
          [this](std::uint32_t round, bool prepare, const FailureReport& report) {
            ByteWriter writer;
            writer.put(round).put(static_cast<std::uint8_t>(prepare));
            report.encode(writer);
            router_.send(ControlMessageKind::proposal, all_ranks, std::move(writer).bytes());
          },
      .acknowledge =
          [this](int leader, std::uint32_t round, const std::optional<FailureReport>& committed,
                 const std::optional<Accepted>& earlier) {
            router_.send(ControlMessageKind::acknowledgement, leader,
                         encode_acknowledgement({round, committed, earlier}));
          },
      .commit =
          [this](std::uint32_t round, const FailureReport& report) {
            ByteWriter writer;
            writer.put(round);
            report.encode(writer);
            router_.send(ControlMessageKind::commit, all_ranks, std::move(writer).bytes());
          },
      .start_gather_timer =
          [this] { reactor_.after(gather_delay, [this] { consensus_.on_gather_timeout(); }); },
      .start_response_timer = [this] { start_response_timer(); },
      .decided = [this](const FailureReport& report) { decided(report); },
  };
}

/// During set-up a rank does not count as unresponsive: messages to it are lost rather than queued.
bool Plane::Worker::is_past_setup() const {
  {
    const std::lock_guard lock(plane_.mutex_);
    if (!plane_.unlinked_.empty()) return false;
  }
  const auto histories = plane_.histories();
  return std::any_of(histories.begin(), histories.end(), [](const auto& history) {
    const auto activity = history->activity();
    return activity.sequence > (activity.in_call ? 1U : 0U);
  });
}

void Plane::Worker::start_response_timer() {
  reactor_.after(response_timeout, [this] {
    if (is_past_setup()) return consensus_.on_response_timeout();
    start_response_timer();
  });
}

void Plane::Worker::run(Deadline setup) {
  try {
    watch_processes();
    link_neighbours(setup);
    reactor_.after(probe_delay, [this] { probe_unlinked(); });
    tick();
    reactor_.run();
  } catch (const std::exception& error) {
    report_own_failure(error.what());
  } catch (...) {
    report_own_failure("unknown exception (not a std::exception)");
  }
}

/// No caller above this thread could report the error, and peers must not wait for a dead thread.
void Plane::Worker::report_own_failure(const std::string& reason) {
  decided({.code = ErrorCode::system,
           .failed_ranks = {peers_.rank()},
           .sentence = fmt::format("the control thread of {} failed: {}",
                                   peers_.describe(peers_.rank()), reason),
           .origin = peers_.rank()});
  links_.clear();
}

void Plane::Worker::link_neighbours(Deadline setup) {
  for (const int peer : neighbours_) {
    if (peer < peers_.rank()) continue;
    dialer_.dial(
        peer, rendezvous::LinkKind::control, peers_.candidates(peer), setup,
        [this, peer](std::optional<rendezvous::Connection> connection, const std::string& failure) {
          if (connection) return on_connection(std::move(*connection));
          const std::lock_guard lock(plane_.mutex_);
          plane_.link_failure_ = fmt::format("can't reach {}: {}", peers_.describe(peer), failure);
          plane_.changed_.notify_all();
        });
  }
}

void Plane::Worker::on_connection(rendezvous::Connection connection) {
  if (const auto reason = rejection_reason(self_, connection); !reason.empty()) {
    const int peer = connection.peer;
    const auto failure = fmt::format("can't use a link with {}: {}", peers_.describe(peer), reason);
    consensus_.report_failure({.code = ErrorCode::system,
                               .failed_ranks = {peers_.rank()},
                               .sentence = failure,
                               .origin = peers_.rank()});
    // During set-up there may be no link to report it on.
    const std::lock_guard lock(plane_.mutex_);
    plane_.link_failure_ = failure;
    plane_.changed_.notify_all();
    return;
  }
  if (connection.kind == rendezvous::LinkKind::control) return add_link(std::move(connection));
  const std::lock_guard lock(plane_.mutex_);
  plane_.data_connections_.push_back({std::move(connection), false, {}});
  plane_.wakeup_.signal();
}

void Plane::Worker::add_link(rendezvous::Connection connection) {
  const int peer = connection.peer;
  probes_.erase(peer);
  links_[peer] = std::make_unique<ControlLink>(
      reactor_, std::move(connection.socket), keepalive_,
      ControlLink::Events{.message =
                              [this, peer](std::span<const std::byte> bytes) {
                                const auto message = ControlMessage::decode(bytes, peers_.size());
                                if (message) router_.on_message(peer, *message);
                              },
                          .closed = [this, peer](int number) { on_link_closed(peer, number); }});
  // Earlier reports may not have reached the leader, nor the agreed failure this rank.
  consensus_.resend();
  const std::lock_guard lock(plane_.mutex_);
  plane_.unlinked_.erase(peer);
  plane_.changed_.notify_all();
}

void Plane::Worker::on_message(const ControlMessage& message) {
  ByteReader reader(message.body);
  switch (message.kind) {
    case ControlMessageKind::evidence:
      if (const auto report = FailureReport::decode(reader, peers_.size()))
        consensus_.on_evidence(*report);
      return;
    case ControlMessageKind::proposal: {
      const auto round = reader.get<std::uint32_t>();
      const bool prepare = reader.get<std::uint8_t>() != 0;
      const auto report = FailureReport::decode(reader, peers_.size());
      if (report) consensus_.on_proposal(message.origin, round, prepare, *report);
      return;
    }
    case ControlMessageKind::acknowledgement:
      if (const auto decoded = decode_acknowledgement(message.body, peers_.size())) {
        consensus_.on_acknowledgement(message.origin, decoded->round, decoded->committed,
                                      decoded->earlier);
      }
      return;
    case ControlMessageKind::commit: {
      const auto round = reader.get<std::uint32_t>();
      if (const auto report = FailureReport::decode(reader, peers_.size()))
        consensus_.on_commit(message.origin, round, *report);
      return;
    }
    case ControlMessageKind::goodbye:
      return on_goodbye(message.origin);
    case ControlMessageKind::calls:
      if (auto decoded = decode_calls(message.body)) on_calls(message.origin, std::move(*decoded));
      return;
    case ControlMessageKind::status_request: {
      const auto communicator = reader.get<std::uint32_t>();
      if (reader.ok()) send_status_to(message.origin, communicator);
      return;
    }
    case ControlMessageKind::status:
      if (const auto decoded = decode_status(message.body, peers_.size()))
        on_status(message.origin, *decoded);
      return;
  }
}

void Plane::Worker::send_calls_to(int peer, const CallHistory& history) {
  router_.send(ControlMessageKind::calls, peer,
               encode_calls(history.group().id, history.latest(max_calls_sent)));
}

void Plane::Worker::on_calls(int origin, CallsMessage decoded) {
  peer_calls_[{origin, decoded.communicator}] = std::move(decoded.calls);
  compare_with(origin, decoded.communicator);
}

void Plane::Worker::compare_with(int peer, std::uint32_t communicator) {
  const auto entry = peer_calls_.find({peer, communicator});
  if (entry == peer_calls_.end()) return;
  const auto history = plane_.history(communicator);
  if (!history || !history->group().has(peer)) {
    // The communicator does not exist here yet or any more.
    peer_calls_.erase(entry);
    return;
  }
  const auto difference = compare(*history, entry->second);
  if (difference) {
    consensus_.report_failure(mismatch(peers_, history->group(), difference->sequence,
                                       peers_.rank(), difference->mine, peer, difference->theirs));
  }
  // Kept while it has calls that this rank has not made yet.
  const auto latest = entry->second.empty() ? 0 : entry->second.back().sequence;
  if (difference || history->activity().sequence >= latest) peer_calls_.erase(entry);
}

void Plane::Worker::notify_neighbours(const CallHistory& history) {
  const auto activity = history.activity();
  const auto& group = history.group();
  const auto now = std::chrono::steady_clock::now();
  if (!activity.in_call || now - activity.since < tick_interval) return;
  auto& sent_for = calls_sent_for_[group.id];
  if (activity.sequence == sent_for) return;
  sent_for = activity.sequence;
  for (const int member : neighbours(group.rank, group.size())) {
    send_calls_to(group.world_of(member), history);
  }
}

void Plane::Worker::tick() {
  plane_.clock_->now();
  std::set<std::uint32_t> open;
  for (const auto& history : plane_.histories()) {
    open.insert(history->group().id);
    notify_neighbours(*history);
  }
  std::erase_if(calls_sent_for_, [&](const auto& entry) { return !open.contains(entry.first); });
  std::vector<std::pair<int, std::uint32_t>> keys;
  for (const auto& [key, calls] : peer_calls_) keys.push_back(key);
  for (const auto& [peer, communicator] : keys) compare_with(peer, communicator);
  consensus_.resend_pending();
  const bool is_over = leaving_ || consensus_.agreed_failure();
  std::erase_if(probes_, [&](const auto& probe) {
    return is_over || departed_.contains(probe.first) || consensus_.is_lost(probe.first);
  });
  if (const auto requests = record_requests(); requests != records_written_) {
    records_written_ = requests;
    plane_.write_record("requested by SIGUSR1");
  }
  {
    const std::lock_guard lock(plane_.mutex_);
    plane_.lost_ = consensus_.lost();
  }
  reactor_.after(tick_interval, [this] { tick(); });
}

void Plane::Worker::say_goodbye() {
  leaving_ = true;
  router_.send(ControlMessageKind::goodbye, all_ranks, {});
  consensus_.departed(peers_.rank());
  check_all_left();
}

void Plane::Worker::stop_once_decided(Deadline deadline) {
  if (consensus_.agreed_failure() && !leaving_) say_goodbye();
  const bool sent = leaving_ && std::all_of(links_.begin(), links_.end(), [](const auto& link) {
                      return link.second->flushed();
                    });
  if (sent || deadline.expired()) return reactor_.stop();
  reactor_.after(std::chrono::milliseconds(1), [this, deadline] { stop_once_decided(deadline); });
}

void Plane::Worker::on_goodbye(int origin) {
  departed_.insert(origin);
  if (const auto found = processes_.find(origin); found != processes_.end()) {
    reactor_.remove(found->second.get());
    processes_.erase(found);
  }
  consensus_.departed(origin);
  {
    const std::lock_guard lock(plane_.mutex_);
    plane_.departed_.insert(origin);
    plane_.wakeup_.signal();
  }
  check_all_left();
}

void Plane::Worker::check_all_left() {
  if (!leaving_) return;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer != peers_.rank() && !departed_.contains(peer) && !consensus_.is_lost(peer)) return;
  }
  const bool flushed = std::all_of(links_.begin(), links_.end(),
                                   [](const auto& link) { return link.second->flushed(); });
  if (!flushed) {
    reactor_.after(std::chrono::milliseconds(1), [this] { check_all_left(); });
    return;
  }
  const std::lock_guard lock(plane_.mutex_);
  plane_.all_left_ = true;
  plane_.changed_.notify_all();
}

void Plane::Worker::ask_statuses(std::uint32_t communicator) {
  ByteWriter writer;
  writer.put(communicator);
  router_.send(ControlMessageKind::status_request, all_ranks, std::move(writer).bytes());
}

void Plane::Worker::send_status_to(int origin, std::uint32_t communicator) {
  router_.send(ControlMessageKind::status, origin,
               encode_status({communicator,
                              {.activity = plane_.activity_seen_from(communicator),
                               .unacknowledged = plane_.data_sockets_.unacknowledged()}}));
}

void Plane::Worker::on_status(int origin, const StatusMessage& decoded) {
  const std::lock_guard lock(plane_.mutex_);
  if (decoded.communicator != plane_.statuses_of_) return;  // a late answer to an earlier query
  plane_.statuses_[origin] = decoded.status;
  plane_.changed_.notify_all();
}

void Plane::Worker::dial_data(int peer, Deadline deadline) {
  dialer_.dial(
      peer, rendezvous::LinkKind::data, peers_.candidates(peer), deadline,
      [this, peer](std::optional<rendezvous::Connection> connection, const std::string& failure) {
        DataConnection result{.dialed_here = true, .failure = failure};
        result.connection.peer = peer;
        if (connection) {
          result.failure = rejection_reason(self_, *connection);
          if (result.failure.empty()) result.connection = std::move(*connection);
        }
        const std::lock_guard lock(plane_.mutex_);
        plane_.data_connections_.push_back(std::move(result));
        plane_.wakeup_.signal();
      });
}

void Plane::Worker::decided(const FailureReport& report) {
  {
    const std::lock_guard lock(plane_.mutex_);
    // A report that a caller decided on after its timeout stays: later calls throw the same error
    // as the first.
    if (!plane_.agreed_) plane_.agreed_ = report;
    plane_.failed_.store(true, std::memory_order_release);
    plane_.changed_.notify_all();
    plane_.wakeup_.signal();
  }
  plane_.write_record(plane_.agreed_error().sentence());
  check_all_left();
}

}  // namespace tutti::control
