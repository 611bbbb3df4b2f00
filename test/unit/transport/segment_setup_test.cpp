// Set-up of the shared segment when some ranks are slow.
#include "transport/segment_setup.hpp"

#include <fmt/format.h>

#include <thread>

#include "support/catch.hpp"
#include "support/forked_child.hpp"
#include "support/secret.hpp"
#include "transport/descriptor_passing.hpp"
#include "tutti/version.hpp"

namespace tutti::transport::test {
namespace {

using namespace std::chrono_literals;

rendezvous::Peers peers_of(int rank, int size) {
  rendezvous::PeerInfo info;
  info.version = version_string;
  info.host = {"identity of a", "a", "pids of a"};
  return {rank, std::vector(static_cast<std::size_t>(size), info), {}};
}

/// The ranks of one host, each in a thread; the leader listens once this is constructed.
struct Ranks {
  NoteKey key;
  std::vector<rendezvous::Peers> peers;
  std::vector<std::unique_ptr<SegmentSetup>> setups;
  std::vector<SegmentSetup::Outcome> outcomes;
  std::vector<std::thread> threads;

  explicit Ranks(int size, unsigned number)
      : key{tutti::test::known_secret(number)}, outcomes(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      peers.push_back(peers_of(rank, size));
      setups.push_back(std::make_unique<SegmentSetup>(peers.back(), key, SingleCopyUse::automatic));
    }
  }
  void start(std::size_t rank, std::chrono::milliseconds limit) {
    threads.emplace_back([this, rank, limit] {
      outcomes[rank] =
          setups[rank]->finish(peers[rank], Deadline::after(limit), [] { return false; });
    });
  }
  void join() {
    for (auto& thread : threads) thread.join();
    threads.clear();
  }
};

}  // namespace

TEST_CASE("a rank that connects or sends late still shares memory") {
  Ranks ranks(2, 71);
  ranks.start(0, 8s);
  SECTION("half of the time is over when it comes") {
    std::this_thread::sleep_for(4s);
    ranks.start(1, 4s);
    ranks.join();
    CHECK(ranks.outcomes[1].segment);
  }
  SECTION("it is not run between its connection and its word") {
    const auto connection = connect_for_notes(ranks.key, 0);
    std::this_thread::sleep_for(500ms);
    REQUIRE(send_note(connection, Note::request(ranks.key, 1, 0)));
    Note offer;
    const auto never = [] { return false; };
    CHECK(receive_note(connection, offer, Deadline::after(5s), never) == Received::note);
    CHECK(offer.file);
    send_note(connection, Note::yes());
    ranks.join();
  }
  CHECK(ranks.outcomes[0].failure == "");
  CHECK(ranks.outcomes[0].segment);
}

TEST_CASE("many unauthenticated connections keep no rank out") {
  Ranks ranks(3, 72);
  ranks.start(0, 20s);
  std::vector<Descriptor> unauthenticated;
  for (int i = 0; i < 300; ++i) {
    unauthenticated.push_back(connect_for_notes(ranks.key, 0));
    if (i == 20) ranks.start(1, 20s);
  }
  ranks.start(2, 20s);
  ranks.join();
  for (const auto& outcome : ranks.outcomes) {
    CHECK(outcome.failure == "");
    CHECK(outcome.segment);
  }
}

TEST_CASE("a missing rank is reported, and the others continue without shared memory") {
  Ranks ranks(3, 73);
  ranks.start(0, 800ms);
  ranks.start(1, 5s);
  ranks.join();
  CHECK(ranks.outcomes[0].failure.find("rank 2") != std::string::npos);
  CHECK_FALSE(ranks.outcomes[0].segment);
  CHECK_FALSE(ranks.outcomes[1].segment);
}

TEST_CASE("a forked child inherits none of the set-up sockets") {
  const NoteKey key{tutti::test::known_secret(79)};
  auto listening = listen_for_notes(key, 0);
  const auto follower = connect_for_notes(key, 0);
  auto accepted = accept_notes(listening, 3s);
  REQUIRE(accepted);
  const tutti::test::ForkedChild child;
  accepted.reset();
  Note note;
  CHECK(receive_note(follower, note, Deadline::after(3s), [] { return false; }) ==
        Received::closed);
  listening.reset();
  CHECK_THROWS_AS(connect_for_notes(key, 0), Error);
}

}  // namespace tutti::transport::test
