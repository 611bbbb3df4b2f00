#include "transport/segment_setup.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "transport/descriptor_passing.hpp"
#include "tutti/error.hpp"

namespace tutti::transport {
namespace {

// On a loaded host some ranks come seconds later than others, so they have nearly all of the time
// of set-up. What is left is for the others to hear that one has not come, and to go on without.
Deadline until_decision(Deadline deadline) {
  const auto left = deadline.remaining();
  return deadline.within(left - left / 8);
}
// Who connects and says nothing is no member, or slow. The oldest is dropped for a newer one; a
// member comes again.
constexpr std::size_t max_silent = 256;

bool says_yes(Received received, const Note& note) {
  return received == Received::note && note.kind == NoteKind::yes;
}

}  // namespace

SegmentSetup::SegmentSetup(const rendezvous::Peers& peers, NoteKey key, bool refuses)
    : key_(std::move(key)), refuses_(refuses), self_(peers.rank()) {
  for (int rank = 0; rank < peers.size(); ++rank) {
    if (peers.on_this_host(rank)) local_.push_back(rank);
  }
  if (local_.size() < 2 || !leads()) return;
  try {
    socket_ = listen_for_notes(key_, self_);
  } catch (const Error& error) {
    trouble_ = error.sentence();
  }
}

SegmentSetup::Outcome SegmentSetup::finish(const rendezvous::Peers& peers, Deadline deadline,
                                           const Cancelled& cancelled) {
  if (local_.size() < 2) return {};
  if (!leads()) return follow(peers, deadline, cancelled);
  // The others wait for the decision until the deadline.
  auto outcome = lead(peers, until_decision(deadline), cancelled);
  socket_.reset();
  followers_.clear();
  return outcome;
}

std::shared_ptr<SharedSegment> SegmentSetup::map(Descriptor file) const {
  if (refuses_) throw Error(ErrorCode::system, "TUTTI_FAULT refuses shared memory");
  const auto here = std::find(local_.begin(), local_.end(), self_) - local_.begin();
  return std::make_shared<SharedSegment>(std::move(file), static_cast<int>(here),
                                         static_cast<int>(local_.size()));
}

/// Until all others have come; else says who has not.
std::string SegmentSetup::gather(const rendezvous::Peers& peers, Deadline limit,
                                 const Cancelled& cancelled) {
  if (!trouble_.empty()) return trouble_;
  followers_.resize(local_.size() - 1);
  std::list<Descriptor> silent;
  while (true) {
    const auto missing = std::find_if(followers_.begin(), followers_.end(),
                                      [](const Descriptor& follower) { return !follower; });
    if (missing == followers_.end()) return {};
    if (limit.expired() || cancelled()) {
      const auto place = static_cast<std::size_t>(missing - followers_.begin()) + 1;
      return fmt::format("{} has not come for it", peers.describe(local_[place]));
    }
    wait_for_any(silent);
    while (auto connection = accept_notes(socket_, std::chrono::milliseconds(0))) {
      if (silent.size() == max_silent) silent.pop_front();
      silent.push_back(std::move(connection));
    }
    for (auto connection = silent.begin(); connection != silent.end();) {
      Note note;
      const auto received = receive_note(*connection, note, Deadline::after({}), cancelled);
      if (received == Received::late || received == Received::cancelled) {
        ++connection;
        continue;
      }
      const auto found = std::find(local_.begin() + 1, local_.end(), note.rank);
      if (received == Received::note && found != local_.end() &&
          note.proves_membership(key_, self_)) {
        followers_[static_cast<std::size_t>(found - local_.begin()) - 1] = std::move(*connection);
      }
      connection = silent.erase(connection);
    }
  }
}

/// Until somebody comes or speaks, or for a moment.
void SegmentSetup::wait_for_any(const std::list<Descriptor>& silent) const {
  std::vector<pollfd> polled{{.fd = socket_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& connection : silent) {
    polled.push_back({.fd = connection.get(), .events = POLLIN, .revents = 0});
  }
  ::poll(polled.data(), polled.size(), static_cast<int>(look_around.count()));
}

SegmentSetup::Outcome SegmentSetup::lead(const rendezvous::Peers& peers, Deadline limit,
                                         const Cancelled& cancelled) {
  const auto tell = [&](const Note& note, int file = -1) {
    for (const auto& follower : followers_) {
      if (follower) send_note(follower, note, file);
    }
  };
  Outcome outcome{.segment = nullptr, .trouble = gather(peers, limit, cancelled)};
  try {
    if (outcome.trouble.empty()) {
      auto file = SharedSegment::make_file(static_cast<int>(local_.size()));
      tell(Note::yes(), file.get());
      outcome.segment = map(std::move(file));
    }
  } catch (const Error& error) {
    outcome.trouble = error.sentence();
  }
  if (outcome.segment) {
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      Note note;
      const auto received = receive_note(followers_[i], note, limit, cancelled);
      if (says_yes(received, note) || !outcome.trouble.empty()) continue;
      outcome.trouble = received == Received::note
                            ? note.text()
                            : fmt::format("{} does not answer", peers.describe(local_[i + 1]));
    }
  }
  if (!outcome.trouble.empty()) {
    tell(Note::no(outcome.trouble));
    outcome.segment.reset();
    return outcome;
  }
  tell(Note::yes());
  return outcome;
}

/// Empty where the first rank does not listen, which after a loss it may do later.
Descriptor SegmentSetup::reach_leader(Deadline deadline, const Cancelled& cancelled) const {
  // Shorter than the first rank waits: who comes after it has closed must not wait long for it.
  const auto limit = deadline.within(deadline.remaining() / 2);
  while (!deadline.expired() && !cancelled()) {
    try {
      if (auto connection = connect_for_notes(key_, local_.front())) return connection;
    } catch (const Error&) {
      if (!is_after_loss() || limit.expired()) break;
    }
    std::this_thread::sleep_for(look_around);
  }
  return Descriptor();
}

SegmentSetup::Outcome SegmentSetup::follow(const rendezvous::Peers& peers, Deadline deadline,
                                           const Cancelled& cancelled) {
  const int leader = local_.front();
  Descriptor connection;
  const auto hear = [&](Note& note) {
    const auto received = receive_note(connection, note, deadline, cancelled);
    if (received == Received::late) {
      throw Error(ErrorCode::timeout,
                  fmt::format("set-up timed out: {} does not say whether its host's ranks share "
                              "memory; look at its messages, or give more time by TUTTI_TIMEOUT",
                              peers.describe(leader)))
          .with_failed_ranks({leader})
          .speaking(self_ == local_[1])
          .at(self_, peers.info(self_).host.name);
    }
    return received;
  };
  Note offer;
  auto heard = Received::closed;
  // Among many who are silent the first rank may have taken this one for a stranger.
  while (heard == Received::closed) {
    connection = reach_leader(deadline, cancelled);
    if (!connection) return {};  // the first rank misses this one, and decides so
    if (send_note(connection, Note::request(key_, self_, leader))) heard = hear(offer);
  }
  if (!says_yes(heard, offer)) return {};
  Outcome outcome;
  auto answer = Note::yes();
  try {
    outcome.segment = map(std::move(offer.file));
  } catch (const Error& error) {
    answer = Note::no(error.sentence());
  }
  send_note(connection, answer);
  Note decision;
  if (!says_yes(hear(decision), decision) || !outcome.segment) return {};
  return outcome;
}

}  // namespace tutti::transport
