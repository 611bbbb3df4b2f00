// Unauthenticated connections to the ports of a running job are dropped without an answer and do
// not affect the job.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "loops.hpp"
#include "rendezvous/handshake.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "unauthenticated.hpp"

namespace tutti::test {
namespace {

using rendezvous::LinkKind;
using rendezvous::Membership;
using rendezvous::Nonce;

constexpr auto dropped_within = 3000ms;
constexpr std::size_t hello_bytes = rendezvous::hello_bytes;
// Limit for memory that a thousand dropped connections may leak. Sanitizers keep freed memory and
// record accesses.
constexpr long max_growth_kib = is_sanitized ? 8192 : 512;

/// Replays a recorded broadcast to JobSecret::share, which gives the test the job's secret.
class Recorded final : public Bootstrap {
 public:
  explicit Recorded(Bytes message) : message_(std::move(message)) {}
  [[nodiscard]] int rank() const override { return 1; }
  [[nodiscard]] int size() const override { return 2; }
  [[nodiscard]] std::string source() const override { return "a recording"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline) override { return {mine, mine}; }
  Bytes broadcast(const Bytes&, int, Deadline) override { return message_; }
  void barrier(Deadline) override {}

 private:
  Bytes message_;
};

bootstrap::JobSecret secret_from(const Bytes& message) {
  Recorded recorded(message);
  return bootstrap::JobSecret::share(recorded, Deadline::never());
}

Bytes bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes random_bytes(std::size_t count) {
  Bytes bytes(count);
  bootstrap::draw_random(bytes);
  return bytes;
}

/// A valid proof; empty if the bytes are not a hello.
Bytes prove(const Membership& self, int to, LinkKind kind, const Bytes& hello_read) {
  rendezvous::Hello hello{};
  if (hello_read.size() < hello.size()) return {};
  std::copy_n(hello_read.begin(), hello.size(), hello.begin());
  Nonce nonce{};
  bootstrap::draw_random(nonce);
  const auto made = rendezvous::make_proof(self, to, kind, hello, nonce);
  const auto* const proof = std::get_if<rendezvous::Proof>(&made);
  return proof == nullptr ? Bytes() : Bytes(proof->begin(), proof->end());
}

/// A job that repeats all_reduce, with its endpoints and secret.
class LoopingJob {
 public:
  explicit LoopingJob(int size, std::size_t count = 1000)
      : job_(size, [count](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 20s});
          rank.say(text_of(rank.bootstrap().latest_broadcast()));
          reduce_until_released(rank, communicator, count);
          communicator.finalize();
          return "done";
        }) {
    job_.await_marks_of_all(3);
    for (int rank = 0; rank < size; ++rank) {
      for (auto& endpoint : endpoints_of(job_.pid(rank), rank))
        endpoints_.push_back(std::move(endpoint));
    }
    secret_ = bytes_of(job_.said(0));
  }

  [[nodiscard]] const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  [[nodiscard]] const Bytes& secret() const { return secret_; }
  [[nodiscard]] Job& job() { return job_; }

  /// Checks that every connection is dropped in time after at most a hello, and that the job
  /// continues.
  void check_dropped(const std::vector<Endpoint>& endpoints, const Behavior& behavior) {
    const auto before = job_.marks(0);
    const auto outcomes = connect_all(endpoints, behavior, dropped_within * time_factor());
    Clock::duration slowest{};
    for (const auto& outcome : outcomes) {
      INFO(behavior.name << ": " << outcome.endpoint);
      CHECK(outcome.connected);
      CHECK(outcome.closed);
      CHECK(outcome.received <= hello_bytes);
      slowest = std::max(slowest, outcome.after);
    }
    fmt::print("{}: {} connections dropped within {:.0f} ms\n", behavior.name, outcomes.size(),
               1e3 * seconds(slowest));
    job_.await_marks_of_all(before + 1);
  }

  void check_good_end() {
    job_.release();
    CHECK(errors_of(job_.finish()) == "");
  }

 private:
  Job job_;
  std::vector<Endpoint> endpoints_;
  Bytes secret_;
};

Membership member(const Bytes& secret, int rank, int size) {
  return {.secret = secret_from(secret), .epoch = 0, .rank = rank, .size = size};
}

}  // namespace

TEST_CASE("unauthenticated connections to any port are dropped, and the job continues") {
  LoopingJob looping(4);
  // The test needs a listening socket on each rank.
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(std::any_of(looping.endpoints().begin(), looping.endpoints().end(),
                      [rank](const Endpoint& endpoint) { return endpoint.rank == rank; }));
  }
  const std::vector<Behavior> kinds{
      {"random bytes", true, [](const Bytes&) { return random_bytes(300); }},
      {"much nonsense", true, [](const Bytes&) { return random_bytes(std::size_t{1} << 20); }},
      {"HTTP", true,
       [](const Bytes&) {
         return bytes_of(
             "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: probe\r\nAccept: */*\r\n"
             "Connection: keep-alive\r\n\r\n");
       }},
      {"TLS", true,
       [](const Bytes&) {
         auto hello = bytes_of({"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03", 11});
         const auto rest = random_bytes(194);
         hello.insert(hello.end(), rest.begin(), rest.end());
         return hello;
       }},
      {"16 times 0xFF", true, [](const Bytes&) { return Bytes(16, std::byte{0xFF}); }},
      {"256 times 0xFF", true, [](const Bytes&) { return Bytes(256, std::byte{0xFF}); }},
      {"its own hello back", false, [](const Bytes& hello) { return hello; }},
      {"its own hello thrice", false,
       [](const Bytes& hello) {
         auto words = hello;
         words.insert(words.end(), hello.begin(), hello.end());
         words.insert(words.end(), hello.begin(), hello.end());
         return words;
       }},
      {"silence", true, {}},
  };
  for (const auto& behavior : kinds) looping.check_dropped(looping.endpoints(), behavior);
  looping.check_good_end();
}

TEST_CASE("a peer without the secret is refused even if it follows the protocol") {
  constexpr int size = 3;
  LoopingJob looping(size);
  // The correct job id, which is public, with another secret.
  auto wrong = looping.secret();
  REQUIRE(wrong.size() == bootstrap::JobSecret::secret_bytes + bootstrap::JobSecret::id_bytes);
  wrong[0] ^= std::byte{1};
  for (const auto& endpoint : looping.endpoints()) {
    const int to = endpoint.rank;
    const int from = (to + 1) % size;
    for (const auto kind : {LinkKind::control, LinkKind::data}) {
      looping.check_dropped({endpoint}, {"wrong secret", false, [&](const Bytes& hello) {
                                           return prove(member(wrong, from, size), to, kind, hello);
                                         }});
    }
    auto other_job = looping.secret();
    other_job.back() ^= std::byte{1};
    looping.check_dropped({endpoint}, {"another job", false, [&](const Bytes& hello) {
                                         return prove(member(other_job, from, size), to,
                                                      LinkKind::control, hello);
                                       }});
  }
  looping.check_good_end();
}

TEST_CASE("even with the secret, invalid claims are rejected") {
  constexpr int size = 3;
  LoopingJob looping(size);
  for (const auto& endpoint : looping.endpoints()) {
    const int to = endpoint.rank;
    const int from = (to + 1) % size;
    const auto refused = [&](const char* name, const Membership& self, int claimed_to,
                             LinkKind kind) {
      looping.check_dropped({endpoint}, {name, false, [&, self](const Bytes& hello) {
                                           return prove(self, claimed_to, kind, hello);
                                         }});
    };
    const auto good = member(looping.secret(), from, size);
    // All three ranks are neighbours, so that control link is open already.
    refused("a second control link", good, to, LinkKind::control);
    refused("an unknown kind of link", good, to, static_cast<LinkKind>(9));
    refused("for another rank", good, (to + 2) % size, LinkKind::control);
    auto self = good;
    self.rank = to;
    refused("from itself", self, to, LinkKind::control);
    self.rank = 77;
    refused("from a rank out of range", self, to, LinkKind::control);
    self.rank = -1;
    refused("from rank -1", self, to, LinkKind::control);
    self = good;
    self.epoch = 1;
    refused("another epoch", self, to, LinkKind::control);
  }
  looping.check_good_end();
}

TEST_CASE("a replayed handshake is rejected") {
  constexpr int size = 3;
  LoopingJob looping(size);
  for (const auto& endpoint : looping.endpoints()) {
    Bytes recorded;
    looping.check_dropped(
        {endpoint}, {"the original", false, [&](const Bytes& hello) {
                       recorded = prove(member(looping.secret(), (endpoint.rank + 1) % size, size),
                                        endpoint.rank, LinkKind::data, hello);
                       // A valid proof, recorded and not delivered.
                       return Bytes(rendezvous::proof_bytes, std::byte{0});
                     }});
    REQUIRE(recorded.size() == rendezvous::proof_bytes);
    looping.check_dropped({endpoint},
                          {"the replay", false, [&](const Bytes&) { return recorded; }});
    looping.check_dropped({endpoint},
                          {"the replay, at once", true, [&](const Bytes&) { return recorded; }});
    auto bent = recorded;
    bent.back() ^= std::byte{1};
    looping.check_dropped({endpoint},
                          {"the replay, bent", false, [&](const Bytes&) { return bent; }});
  }
  looping.check_good_end();
}

TEST_CASE("hundreds of connections leak neither memory nor descriptors") {
  raise_descriptor_limit();
  constexpr int size = 3;
  constexpr int crowd = 200;
  LoopingJob looping(size);
  std::vector<Endpoint> endpoints;
  for (const auto& endpoint : looping.endpoints())
    endpoints.insert(endpoints.end(), crowd, endpoint);
  const Behavior silent{"a silent crowd", true, {}};
  const Behavior loud{"a loud crowd", true, [](const Bytes&) { return random_bytes(500); }};

  looping.check_dropped(endpoints, loud);  // excludes first allocations from the measurement
  looping.check_dropped(endpoints, silent);
  std::vector<long> resident;
  std::vector<std::size_t> descriptors;
  for (int rank = 0; rank < size; ++rank) {
    resident.push_back(resident_kib(looping.job().pid(rank)));
    descriptors.push_back(open_descriptors(looping.job().pid(rank)));
  }
  for (int round = 0; round < 4; ++round) looping.check_dropped(endpoints, loud);
  looping.check_dropped(endpoints, silent);
  for (int rank = 0; rank < size; ++rank) {
    CAPTURE(rank);
    const auto index = static_cast<std::size_t>(rank);
    const auto grown = resident_kib(looping.job().pid(rank)) - resident[index];
    fmt::print("rank {}: {} KiB more after {} connections\n", rank, grown, 5 * crowd);
    CHECK(grown < max_growth_kib);
    CHECK(open_descriptors(looping.job().pid(rank)) == descriptors[index]);
  }
  looping.check_good_end();
}

TEST_CASE("many silent connections hold a bounded number of descriptors") {
  raise_descriptor_limit();
  constexpr int size = 3;
  LoopingJob looping(size);
  const auto before = open_descriptors(looping.job().pid(0));
  std::vector<Descriptor> crowd;
  for (const auto& endpoint : looping.endpoints()) {
    if (endpoint.rank != 0) continue;
    for (int i = 0; i < 200; ++i) crowd.push_back(start_connect(endpoint));
  }
  std::this_thread::sleep_for(300ms);
  CHECK(open_descriptors(looping.job().pid(0)) > before + 10);  // open connections hold descriptors
  CHECK(open_descriptors(looping.job().pid(0)) <= before + 70);
  const auto marks = looping.job().marks(0);
  looping.job().await_marks_of_all(marks + 5);
  looping.check_good_end();
}

TEST_CASE("unauthenticated connections during set-up delay no rank for long") {
  raise_descriptor_limit();
  constexpr int size = 4;
  for (int round = 0; round < 3; ++round) {
    Job job(size, [](Rank& rank) -> std::string {
      rank.bootstrap().after = [&rank](int exchange) {
        if (exchange != 2) return;
        rank.mark();  // the rank listens, and its peer info has been sent
        rank.wait_for_release();
      };
      const auto begin = Clock::now();
      auto& communicator = rank.communicator({.timeout = 20s});
      std::vector<float> data(1000);
      reduce_and_check(rank, communicator, data);
      communicator.finalize();
      return fmt::format("{}", (Clock::now() - begin) / 1ms);
    });
    job.await_marks_of_all(1);
    std::vector<Endpoint> endpoints;
    for (int rank = 0; rank < size; ++rank) {
      for (auto& endpoint : endpoints_of(job.pid(rank), rank))
        endpoints.push_back(std::move(endpoint));
    }
    std::vector<Descriptor> crowd;
    for (const auto& endpoint : endpoints) {
      for (int i = 0; i < 200; ++i) crowd.push_back(start_connect(endpoint));
    }
    const auto begin = Clock::now();
    job.release();
    // More connections arrive all the time.
    std::mt19937 random(5);  // NOLINT
    while (Clock::now() < begin + 1s) {
      try {
        crowd[random() % crowd.size()] = start_connect(endpoints[random() % endpoints.size()]);
      } catch (const std::runtime_error&) {
        break;  // the job has ended
      }
      std::this_thread::sleep_for(200us);
    }
    const auto reports = job.finish();
    CHECK(errors_of(reports) == "");
    for (const auto& report : reports) {
      CHECK(seconds(report.ended - begin) < 5.0 * time_factor());
    }
  }
}

}  // namespace tutti::test
