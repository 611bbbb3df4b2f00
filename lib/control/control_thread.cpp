#include "control_thread.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "control/topology.hpp"

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
// A rank without a thread ends this long after the agreement, although a neighbour has no link.
constexpr std::chrono::milliseconds late_link_limit{500};

Bytes encode_report(const FailureReport& report) {
  ByteWriter writer;
  report.encode(writer);
  return std::move(writer).bytes();
}

}  // namespace

ControlThread::ControlThread(Shared shared, rendezvous::PeerExchange&& exchanged,
                             const Environment& environment, Log& log)
    : shared_(std::move(shared)),
      peers_(shared_.detector.peers()),
      keepalive_(environment.keepalive),
      self_(exchanged.self),
      acceptor_(
          reactor_, self_, std::move(exchanged.listeners), log,
          [this](int from, rendezvous::LinkKind kind) {
            if (kind == rendezvous::LinkKind::data) return accepts_data_from(from);
            return from < peers_.rank() && is_neighbour(from, peers_.rank(), peers_.size());
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
      comparison_(peers_, shared_.histories,
                  {.send =
                       [this](int peer, Bytes calls) {
                         router_.send(ControlMessageKind::calls, peer, std::move(calls));
                       },
                   .report = [this](const FailureReport& report) { report_failure(report); }}),
      neighbours_(neighbours(peers_.rank(), peers_.size())) {}

Consensus::Outbox ControlThread::make_outbox() {
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
bool ControlThread::is_past_setup() const {
  return shared_.link_setup.is_complete() && shared_.histories.have_completed_call();
}

void ControlThread::start_response_timer() {
  reactor_.after(response_timeout, [this] {
    if (is_past_setup()) return consensus_.on_response_timeout();
    start_response_timer();
  });
}

void ControlThread::run(Deadline setup) {
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
void ControlThread::report_own_failure(const std::string& reason) {
  decided({.code = ErrorCode::system,
           .failed_ranks = {peers_.rank()},
           .sentence = fmt::format("the control thread of {} failed: {}",
                                   peers_.describe(peers_.rank()), reason),
           .origin = peers_.rank()});
  links_.clear();
}

void ControlThread::link_neighbours(Deadline setup) {
  for (const int peer : neighbours_) {
    if (peer < peers_.rank()) continue;
    dialer_.dial(
        peer, rendezvous::LinkKind::control, peers_.candidates(peer), setup,
        [this, peer](std::optional<rendezvous::Connection> connection, const std::string& failure) {
          if (connection) return on_connection(std::move(*connection));
          shared_.link_setup.fail(
              fmt::format("can't reach {}: {}", peers_.describe(peer), failure));
        });
  }
}

void ControlThread::on_connection(rendezvous::Connection connection) {
  if (const auto reason = rejection_reason(self_, connection); !reason.empty()) {
    const int peer = connection.peer;
    const auto failure = fmt::format("can't use a link with {}: {}", peers_.describe(peer), reason);
    consensus_.report_failure({.code = ErrorCode::system,
                               .failed_ranks = {peers_.rank()},
                               .sentence = failure,
                               .origin = peers_.rank()});
    // During set-up there may be no link to report it on.
    return shared_.link_setup.fail(failure);
  }
  if (connection.kind == rendezvous::LinkKind::control) return add_link(std::move(connection));
  if (!peers_.on_this_host(connection.peer))
    dialer_.cancel(connection.peer, rendezvous::LinkKind::data);
  shared_.connector.deliver(
      {.connection = std::move(connection), .dialed_here = false, .failure = {}});
}

void ControlThread::add_link(rendezvous::Connection connection) {
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
  if (leaving_) router_.send(ControlMessageKind::goodbye, all_ranks, {});
  shared_.link_setup.add_link(peer);
}

void ControlThread::on_message(const ControlMessage& message) {
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
      if (auto decoded = decode_calls(message.body))
        comparison_.on_calls(message.origin, std::move(*decoded));
      return;
    case ControlMessageKind::status_request: {
      const auto communicator = reader.get<std::uint32_t>();
      if (reader.ok()) send_status_to(message.origin, communicator);
      return;
    }
    case ControlMessageKind::status:
      if (const auto decoded = decode_status(message.body, peers_.size()))
        shared_.statuses.on_status(message.origin, decoded->communicator, decoded->status);
      return;
  }
}

void ControlThread::tick() {
  shared_.detector.clock()->now();
  comparison_.tick(std::chrono::steady_clock::now(), tick_interval);
  consensus_.resend_pending();
  const bool is_over = leaving_ || consensus_.agreed_failure();
  std::erase_if(probes_, [&](const auto& probe) {
    return is_over || departed_.contains(probe.first) || consensus_.is_lost(probe.first);
  });
  shared_.recorder.write_if_signalled();
  shared_.detector.set_lost(consensus_.lost());
  reactor_.after(tick_interval, [this] { tick(); });
}

void ControlThread::say_goodbye() {
  leaving_ = true;
  router_.send(ControlMessageKind::goodbye, all_ranks, {});
  consensus_.departed(peers_.rank());
  check_all_left();
}

/// A neighbour that is not linked yet may have no other path to the agreed failure.
bool ControlThread::has_told_neighbours() const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [this](int peer) {
    const auto link = links_.find(peer);
    if (link != links_.end()) return link->second->flushed();
    return departed_.contains(peer) || consensus_.is_lost(peer);
  });
}

void ControlThread::stop_once_decided(Deadline deadline) {
  if (consensus_.agreed_failure() && !leaving_) {
    say_goodbye();
    deadline = deadline.within(late_link_limit);
  }
  if ((leaving_ && has_told_neighbours()) || deadline.expired()) return reactor_.stop();
  reactor_.after(std::chrono::milliseconds(1), [this, deadline] { stop_once_decided(deadline); });
}

void ControlThread::on_goodbye(int origin) {
  departed_.insert(origin);
  if (const auto found = processes_.find(origin); found != processes_.end()) {
    reactor_.remove(found->second.get());
    processes_.erase(found);
  }
  consensus_.departed(origin);
  shared_.detector.on_departure(origin);
  shared_.statuses.on_change();
  check_all_left();
}

void ControlThread::check_all_left() {
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
  shared_.on_all_left();
}

void ControlThread::send_status_request(std::uint32_t communicator) {
  ByteWriter writer;
  writer.put(communicator);
  router_.send(ControlMessageKind::status_request, all_ranks, std::move(writer).bytes());
}

void ControlThread::send_status_to(int origin, std::uint32_t communicator) {
  router_.send(ControlMessageKind::status, origin,
               encode_status({communicator, shared_.statuses.own(communicator)}));
}

/// If two ranks of different hosts dial each other at once, the first connection counts that has
/// got as far as its proof. Of two such the higher rank's is refused; its attempts end when the
/// lower rank's connection has arrived.
bool ControlThread::accepts_data_from(int peer) {
  if (peers_.on_this_host(peer) || peer < peers_.rank() || !data_dialed_.contains(peer))
    return true;
  if (!dialer_.cancel_unaccepted(peer, rendezvous::LinkKind::data)) return false;
  data_dialed_.erase(peer);
  return true;
}

void ControlThread::dial_data(int peer, Deadline deadline) {
  if (!peers_.on_this_host(peer) &&
      (acceptor_.has_link(peer, rendezvous::LinkKind::data) || !data_dialed_.insert(peer).second))
    return;
  dialer_.dial(
      peer, rendezvous::LinkKind::data, peers_.candidates(peer), deadline,
      [this, peer](std::optional<rendezvous::Connection> connection, const std::string& failure) {
        if (!connection) data_dialed_.erase(peer);
        DataConnection result{.dialed_here = true, .failure = failure};
        result.connection.peer = peer;
        if (connection) {
          result.failure = rejection_reason(self_, *connection);
          if (result.failure.empty()) result.connection = std::move(*connection);
        }
        shared_.connector.deliver(std::move(result));
      });
}

void ControlThread::decided(const FailureReport& report) {
  // Before the failure is entered: then the calls that it ends are still in progress.
  shared_.recorder.write_failure(shared_.detector.error_of(report).sentence());
  shared_.detector.on_decision(report);
  check_all_left();
}

}  // namespace tutti::control
