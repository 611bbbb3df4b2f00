#include "worker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "control/topology.hpp"
#include "record.hpp"

namespace tutti::control {
namespace {

// Long enough for the deaths of one event to come together, short against the second in which all
// must know.
constexpr std::chrono::milliseconds gather_time{10};
// How long a rank that runs takes to answer at most, on a host that is not overloaded. One that
// takes longer is left to learn the verdict later.
constexpr std::chrono::milliseconds patience{50};
// How long a call may last before its rank tells its neighbours which call it is in.
constexpr std::chrono::milliseconds tick_time{50};
// Links take milliseconds. A neighbour that has none after so long may have ended before.
constexpr std::chrono::milliseconds link_patience{1000};
constexpr std::size_t calls_told = 16;

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
      router_(
          peers_.rank(), peers_.size(),
          {.linked =
               [this] {
                 std::vector<int> open;
                 for (const auto& [peer, link] : links_) {
                   if (link->is_open()) open.push_back(peer);
                 }
                 return open;
               },
           .pass = [this](int neighbour,
                          const Message& message) { links_.at(neighbour)->send(message.encode()); },
           .deliver =
               [this](const Message& message) {
                 on_message(message);
                 // It may have told of the last that this rank waits for: where all others have
                 // said goodbye, nobody makes that a verdict.
                 check_all_gone();
               }}),
      consensus_(peers_.rank(), peers_.size(), make_outbox()),
      neighbours_(neighbours(peers_.rank(), peers_.size())) {}

Consensus::Outbox Plane::Worker::make_outbox() {
  return {
      .send_evidence =
          [this](const FailureReport& report) {
            router_.send(MessageKind::evidence, everybody, encode_report(report));
          },
      .propose =
          [this](std::uint32_t round, bool asks_first, const FailureReport& report) {
            ByteWriter writer;
            writer.put(round).put(static_cast<std::uint8_t>(asks_first));
            report.encode(writer);
            router_.send(MessageKind::proposal, everybody, std::move(writer).bytes());
          },
      .acknowledge =
          [this](int leader, std::uint32_t round, const std::optional<FailureReport>& committed,
                 const std::optional<Accepted>& earlier) {
            router_.send(MessageKind::acknowledgement, leader,
                         encode_acknowledgement({round, committed, earlier}));
          },
      .commit =
          [this](std::uint32_t round, const FailureReport& report) {
            ByteWriter writer;
            writer.put(round);
            report.encode(writer);
            router_.send(MessageKind::commit, everybody, std::move(writer).bytes());
          },
      .gather_soon = [this] { reactor_.after(gather_time, [this] { consensus_.gathered(); }); },
      .be_patient = [this] { be_patient(); },
      .decided = [this](const FailureReport& report) { decided(report); },
  };
}

/// A rank that is still in set-up is not silent: what is sent to it is lost, and does not wait for
/// it.
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

void Plane::Worker::be_patient() {
  reactor_.after(patience, [this] {
    if (is_past_setup()) return consensus_.impatient();
    be_patient();
  });
}

void Plane::Worker::run(Deadline setup) {
  try {
    watch_processes();
    link_neighbours(setup);
    reactor_.after(link_patience, [this] { probe_unlinked(); });
    tick();
    reactor_.run();
  } catch (const std::exception& error) {
    give_up(error.what());
  } catch (...) {
    give_up("an exception that is no std::exception");
  }
}

/// Nobody above this thread could tell the caller; and peers must not wait for a thread that
/// answers no more.
void Plane::Worker::give_up(const std::string& reason) {
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
    consensus_.found({.code = ErrorCode::system,
                      .failed_ranks = {peers_.rank()},
                      .sentence = failure,
                      .origin = peers_.rank()});
    // In set-up there may be no other way to tell.
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
                                const auto message = Message::decode(bytes, peers_.size());
                                if (message) router_.on_message(peer, *message);
                              },
                          .closed = [this, peer](int number) { on_link_closed(peer, number); }});
  // What was found before may not have had a way to the leader, or from it; the verdict neither.
  consensus_.repeat();
  const std::lock_guard lock(plane_.mutex_);
  plane_.unlinked_.erase(peer);
  plane_.changed_.notify_all();
}

void Plane::Worker::on_message(const Message& message) {
  ByteReader reader(message.body);
  switch (message.kind) {
    case MessageKind::evidence:
      if (const auto report = FailureReport::decode(reader, peers_.size()))
        consensus_.on_evidence(*report);
      return;
    case MessageKind::proposal: {
      const auto round = reader.get<std::uint32_t>();
      const bool asks_first = reader.get<std::uint8_t>() != 0;
      const auto report = FailureReport::decode(reader, peers_.size());
      if (report) consensus_.on_proposal(message.origin, round, asks_first, *report);
      return;
    }
    case MessageKind::acknowledgement:
      if (const auto told = decode_acknowledgement(message.body, peers_.size())) {
        consensus_.on_acknowledgement(message.origin, told->round, told->committed, told->earlier);
      }
      return;
    case MessageKind::commit: {
      const auto round = reader.get<std::uint32_t>();
      if (const auto report = FailureReport::decode(reader, peers_.size()))
        consensus_.on_commit(message.origin, round, *report);
      return;
    }
    case MessageKind::goodbye:
      return on_goodbye(message.origin);
    case MessageKind::calls:
      if (auto told = decode_calls(message.body)) on_calls(message.origin, std::move(*told));
      return;
    case MessageKind::status_request: {
      const auto communicator = reader.get<std::uint32_t>();
      if (reader.ok()) send_status_to(message.origin, communicator);
      return;
    }
    case MessageKind::status:
      if (const auto told = decode_status(message.body, peers_.size()))
        on_status(message.origin, *told);
      return;
  }
}

void Plane::Worker::send_calls_to(int peer, const CallHistory& history) {
  router_.send(MessageKind::calls, peer,
               encode_calls(history.group().id, history.latest(calls_told)));
}

void Plane::Worker::on_calls(int origin, CallsMessage told) {
  claims_[{origin, told.communicator}] = std::move(told.calls);
  compare_with(origin, told.communicator);
}

void Plane::Worker::compare_with(int peer, std::uint32_t communicator) {
  const auto claim = claims_.find({peer, communicator});
  if (claim == claims_.end()) return;
  const auto history = plane_.history(communicator);
  if (!history || !history->group().has(peer)) {
    // Not made here yet, or gone already.
    claims_.erase(claim);
    return;
  }
  const auto difference = compare(*history, claim->second);
  if (difference) {
    consensus_.found(mismatch(peers_, history->group(), difference->sequence, peers_.rank(),
                              difference->mine, peer, difference->theirs));
  }
  // Kept as long as it tells of calls that this rank has still to make.
  const auto latest = claim->second.empty() ? 0 : claim->second.back().sequence;
  if (difference || history->activity().sequence >= latest) claims_.erase(claim);
}

void Plane::Worker::notify_neighbours(const CallHistory& history) {
  const auto activity = history.activity();
  const auto& group = history.group();
  const auto now = std::chrono::steady_clock::now();
  if (!activity.in_call || now - activity.since < tick_time) return;
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
  std::vector<std::pair<int, std::uint32_t>> claimants;
  for (const auto& [claimant, calls] : claims_) claimants.push_back(claimant);
  for (const auto& [peer, communicator] : claimants) compare_with(peer, communicator);
  consensus_.remind();
  const bool is_over = leaving_ || consensus_.agreed_failure();
  std::erase_if(probes_, [&](const auto& probe) {
    return is_over || departed_.contains(probe.first) || consensus_.is_lost(probe.first);
  });
  if (const auto requests = record_requests(); requests != records_written_) {
    records_written_ = requests;
    plane_.write_record("asked for by SIGUSR1");
  }
  {
    const std::lock_guard lock(plane_.mutex_);
    plane_.lost_ = consensus_.lost();
  }
  reactor_.after(tick_time, [this] { tick(); });
}

void Plane::Worker::say_goodbye() {
  leaving_ = true;
  router_.send(MessageKind::goodbye, everybody, {});
  consensus_.departed(peers_.rank());
  check_all_gone();
}

void Plane::Worker::stop_once_decided(Deadline deadline) {
  if (consensus_.agreed_failure() && !leaving_) say_goodbye();
  const bool told = leaving_ && std::all_of(links_.begin(), links_.end(), [](const auto& link) {
                      return link.second->flushed();
                    });
  if (told || deadline.expired()) return reactor_.stop();
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
  check_all_gone();
}

void Plane::Worker::check_all_gone() {
  if (!leaving_) return;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer != peers_.rank() && !departed_.contains(peer) && !consensus_.is_lost(peer)) return;
  }
  const bool flushed = std::all_of(links_.begin(), links_.end(),
                                   [](const auto& link) { return link.second->flushed(); });
  if (!flushed) {
    reactor_.after(std::chrono::milliseconds(1), [this] { check_all_gone(); });
    return;
  }
  const std::lock_guard lock(plane_.mutex_);
  plane_.all_gone_ = true;
  plane_.changed_.notify_all();
}

void Plane::Worker::ask_statuses(std::uint32_t communicator) {
  ByteWriter writer;
  writer.put(communicator);
  router_.send(MessageKind::status_request, everybody, std::move(writer).bytes());
}

void Plane::Worker::send_status_to(int origin, std::uint32_t communicator) {
  router_.send(MessageKind::status, origin,
               encode_status({communicator,
                              {.activity = plane_.activity_seen_from(communicator),
                               .lost = plane_.data_sockets_.unacknowledged()}}));
}

void Plane::Worker::on_status(int origin, const StatusMessage& told) {
  const std::lock_guard lock(plane_.mutex_);
  if (told.communicator != plane_.statuses_of_) return;  // an answer that came too late
  plane_.statuses_[origin] = told.status;
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
    // A report that a caller did not wait any longer for stays: later calls throw the same as the
    // first.
    if (!plane_.agreed_) plane_.agreed_ = report;
    plane_.failed_.store(true, std::memory_order_release);
    plane_.changed_.notify_all();
    plane_.wakeup_.signal();
  }
  plane_.write_record(plane_.agreed_error().sentence());
  check_all_gone();
}

}  // namespace tutti::control
