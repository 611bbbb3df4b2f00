#include "transport/segment_setup.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error_builder.hpp"
#include "base/remedies.hpp"
#include "transport/descriptor_passing.hpp"
#include "tutti/error.hpp"

namespace tutti::transport {
namespace {

// On a loaded host some ranks arrive seconds later than others, so waiting gets most of the set-up
// time. The rest is for telling the others to continue without shared memory.
Deadline until_decision(Deadline deadline) {
  const auto left = deadline.remaining();
  return deadline.within(left - left / 8);
}
// Maximum connections without a valid request. The oldest is dropped for a new one; a member
// retries.
constexpr std::size_t max_unauthenticated = 256;

bool is_acceptance(Received received, const Note& note) {
  return received == Received::note && note.kind == NoteKind::yes;
}

}  // namespace

SegmentSetup::SegmentSetup(const rendezvous::Peers& peers, NoteKey key, SingleCopyUse single_copy,
                           bool refuses)
    : key_(std::move(key)), single_copy_(single_copy), refuses_(refuses), self_(peers.rank()) {
  for (int rank = 0; rank < peers.size(); ++rank) {
    if (peers.on_this_host(rank)) local_.push_back(rank);
  }
  if (local_.size() < 2 || !is_leader()) return;
  try {
    socket_ = listen_for_notes(key_, self_);
  } catch (const Error& error) {
    failure_ = error.sentence();
  }
}

SegmentSetup::Outcome SegmentSetup::finish(const rendezvous::Peers& peers, Deadline deadline,
                                           const Cancelled& cancelled) {
  if (local_.size() < 2) return {};
  if (!is_leader()) return follow(peers, deadline, cancelled);
  // The followers wait for the decision until the deadline.
  auto outcome = lead(peers, until_decision(deadline), cancelled);
  socket_.reset();
  followers_.clear();
  return outcome;
}

std::shared_ptr<SharedSegment> SegmentSetup::map(Descriptor file) const {
  if (refuses_) throw Error(ErrorCode::system, "TUTTI_FAULT refuses shared memory");
  const auto here = std::find(local_.begin(), local_.end(), self_) - local_.begin();
  auto segment = std::make_shared<SharedSegment>(std::move(file), static_cast<int>(here),
                                                 static_cast<int>(local_.size()));
  segment->single_copy().publish(single_copy_);
  return segment;
}

/// Waits for all followers; otherwise returns which one is missing.
std::string SegmentSetup::gather(const rendezvous::Peers& peers, Deadline limit,
                                 const Cancelled& cancelled) {
  if (!failure_.empty()) return failure_;
  followers_.resize(local_.size() - 1);
  std::list<Descriptor> unauthenticated;
  while (true) {
    const auto missing = std::find_if(followers_.begin(), followers_.end(),
                                      [](const Descriptor& follower) { return !follower; });
    if (missing == followers_.end()) return {};
    if (limit.expired() || cancelled()) {
      const auto place = static_cast<std::size_t>(missing - followers_.begin()) + 1;
      return fmt::format("{} did not join the set-up of shared memory in time",
                         peers.describe(local_[place]));
    }
    wait_for_any(unauthenticated);
    while (auto connection = accept_notes(socket_, std::chrono::milliseconds(0))) {
      if (unauthenticated.size() == max_unauthenticated) unauthenticated.pop_front();
      unauthenticated.push_back(std::move(connection));
    }
    for (auto connection = unauthenticated.begin(); connection != unauthenticated.end();) {
      Note note;
      const auto received = receive_note(*connection, note, Deadline::after({}), cancelled);
      if (received == Received::timeout || received == Received::cancelled) {
        ++connection;
        continue;
      }
      const auto found = std::find(local_.begin() + 1, local_.end(), note.rank);
      if (received == Received::note && found != local_.end() &&
          note.proves_membership(key_, self_)) {
        followers_[static_cast<std::size_t>(found - local_.begin()) - 1] = std::move(*connection);
      }
      connection = unauthenticated.erase(connection);
    }
  }
}

/// Waits for a connection or a note, for at most poll_interval.
void SegmentSetup::wait_for_any(const std::list<Descriptor>& unauthenticated) const {
  std::vector<pollfd> polled{{.fd = socket_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& connection : unauthenticated) {
    polled.push_back({.fd = connection.get(), .events = POLLIN, .revents = 0});
  }
  ::poll(polled.data(), polled.size(), static_cast<int>(poll_interval.count()));
}

SegmentSetup::Outcome SegmentSetup::lead(const rendezvous::Peers& peers, Deadline limit,
                                         const Cancelled& cancelled) {
  const auto notify = [&](const Note& note, int file = -1) {
    for (const auto& follower : followers_) {
      if (follower) send_note(follower, note, file);
    }
  };
  Outcome outcome{.segment = nullptr, .failure = gather(peers, limit, cancelled)};
  try {
    if (outcome.failure.empty()) {
      auto file = SharedSegment::make_file(static_cast<int>(local_.size()));
      notify(Note::yes(), file.get());
      outcome.segment = map(std::move(file));
    }
  } catch (const Error& error) {
    outcome.failure = error.sentence();
  }
  if (outcome.segment) {
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      Note note;
      const auto received = receive_note(followers_[i], note, limit, cancelled);
      if (is_acceptance(received, note) || !outcome.failure.empty()) continue;
      outcome.failure = received == Received::note
                            ? note.text()
                            : fmt::format("{} does not answer", peers.describe(local_[i + 1]));
    }
  }
  if (!outcome.failure.empty()) {
    notify(Note::no(outcome.failure));
    outcome.segment.reset();
    return outcome;
  }
  notify(Note::yes());
  return outcome;
}

/// Returns an empty descriptor if the leader does not listen, which after a loss it may do later.
Descriptor SegmentSetup::reach_leader(Deadline deadline, const Cancelled& cancelled) const {
  // Shorter than the leader waits: a rank that arrives after the leader has closed must not wait
  // long.
  const auto limit = deadline.within(deadline.remaining() / 2);
  while (!deadline.expired() && !cancelled()) {
    try {
      if (auto connection = connect_for_notes(key_, local_.front())) return connection;
    } catch (const Error&) {
      if (!is_after_loss() || limit.expired()) break;
    }
    std::this_thread::sleep_for(poll_interval);
  }
  return Descriptor();
}

SegmentSetup::Outcome SegmentSetup::follow(const rendezvous::Peers& peers, Deadline deadline,
                                           const Cancelled& cancelled) {
  const int leader = local_.front();
  Descriptor connection;
  const auto receive = [&](Note& note) {
    const auto received = receive_note(connection, note, deadline, cancelled);
    if (received == Received::timeout) {
      throw ErrorBuilder(
          Error(
              ErrorCode::timeout,
              fmt::format("set-up timed out: {} did not report whether the ranks of its host share "
                          "memory; see its messages, or {}",
                          peers.describe(leader), longer_timeout_remedy),
              {leader}))
          .speaks_for_job(self_ == local_[1])
          .at(self_, peers.info(self_).host.name)
          .error();
    }
    return received;
  };
  Note offer;
  auto received = Received::closed;
  // The leader may have dropped this connection among many unauthenticated ones.
  while (received == Received::closed) {
    connection = reach_leader(deadline, cancelled);
    if (!connection) return {};  // the leader misses this rank, and decides so
    if (send_note(connection, Note::request(key_, self_, leader))) received = receive(offer);
  }
  if (!is_acceptance(received, offer)) return {};
  Outcome outcome;
  auto answer = Note::yes();
  try {
    outcome.segment = map(std::move(offer.file));
  } catch (const Error& error) {
    answer = Note::no(error.sentence());
  }
  send_note(connection, answer);
  Note decision;
  if (!is_acceptance(receive(decision), decision) || !outcome.segment) return {};
  return outcome;
}

}  // namespace tutti::transport
