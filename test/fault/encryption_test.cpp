// Encrypted links (TUTTI_ENCRYPT=1) with an attacker on the path who reads or changes the data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "loops.hpp"
#include "relay.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

using rendezvous::LinkKind;

void set_encryption(bool on) {
  ::setenv("TUTTI_ENCRYPT", on ? "1" : "0", 1);
  ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
}

/// Each rank on a host of its own: both directions of a link share a connection. The relay listens
/// at loopback.
void set_host(const Rank& rank) {
  ::setenv("TUTTI_SOCKET_IFNAME", "lo", 1);
  ::setenv("TUTTI_HOST_ID", fmt::format("host{}", rank.rank()).c_str(), 1);
}

constexpr std::string_view pattern = "what nobody between the two ranks should be able to read";

/// Rank 0 broadcasts the pattern repeatedly.
std::string broadcast_pattern(Rank& rank, Communicator& communicator) {
  std::vector<std::uint8_t> text(100'000);
  const auto due = [](std::size_t i) {
    return static_cast<std::uint8_t>(pattern[i % pattern.size()]);
  };
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = rank.rank() == 0 ? due(i) : 0;
    communicator.broadcast(std::span(text), 0);
    for (std::size_t i = 0; i < text.size(); ++i) expect(text[i] == due(i), "WRONG DATA");
  }
  return "done";
}

/// A job whose connections all pass through `relay`.
Job relayed_job(int size, const Relay& relay, bool encrypted,
                std::function<std::string(Rank&, Communicator&)> body) {
  return Job(size, [ports = relay.ports(), encrypted, body = std::move(body)](Rank& rank) {
    set_encryption(encrypted);
    set_host(rank);
    RelayBootstrap detour(rank, ports);
    auto communicator = Communicator::create(detour, {.timeout = 20s});
    const auto text = body(rank, communicator);
    communicator.finalize();
    return text;
  });
}

/// Whether the relay can read the pattern on the wire.
bool is_read_on_the_path(bool encrypted) {
  Relay relay(2);
  auto job = relayed_job(2, relay, encrypted, broadcast_pattern);
  std::string seen;
  relay.start(job, [&](LinkKind, std::size_t, std::vector<std::byte>& bytes) {
    seen.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  const auto reports = job.finish();
  relay.stop();
  CHECK(errors_of(reports) == "");
  CHECK(relay.connections() >= 2);  // at least one control link and one data link
  CHECK(seen.size() > 500'000);
  return seen.find(pattern) != std::string::npos;
}

bool can_shrink(Communicator& communicator) {
  try {
    static_cast<void>(communicator.shrink({.timeout = 3s}));
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct Tampered {
  std::vector<Report> reports;
  bool done = false;
};

/// The relay flips one bit in the first link of that kind, after the handshake.
Tampered run_tampered(LinkKind kind, int size) {
  Relay relay(size);
  auto job = relayed_job(size, relay, true, [kind](Rank& rank, Communicator& communicator) {
    std::vector<float> data(50'000);
    try {
      // Long enough for messages on the control links.
      for (int round = 0; round < 2000; ++round) {
        reduce_and_check(rank, communicator, data);
        if (round % 10 == 0 && rank.rank() == 1) std::this_thread::sleep_for(120ms);
      }
    } catch (const Error&) {
      // Both ends are alive, so neither may continue without the other.
      if (kind == LinkKind::control) expect(!can_shrink(communicator), "SHRINK WENT ON");
      throw;
    }
    return "done";
  });
  Tampered tampered;
  relay.start(job, [&](LinkKind of, std::size_t position, std::vector<std::byte>& bytes) {
    constexpr std::size_t behind_handshakes = 1500;
    const bool late_enough = position > (of == LinkKind::data ? behind_handshakes : 600);
    if (tampered.done || of != kind || !late_enough) return;
    bytes.back() ^= std::byte{4};  // not in a length field: the receiver would wait for more data
    tampered.done = true;
  });
  tampered.reports = job.finish(40s);
  relay.stop();
  return tampered;
}

}  // namespace

TEST_CASE("encrypted collectives and messages have the right data") {
  for (const int size : {2, 3, 5}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      set_encryption(true);
      auto& communicator = rank.communicator({.timeout = 20s});
      for (const std::size_t count : {1UL, 14UL, 1000UL, 4096UL, 100'000UL, 3'000'000UL}) {
        std::vector<float> data(count);
        reduce_and_check(rank, communicator, data);
        std::fill(data.begin(), data.end(), static_cast<float>(rank.rank()));
        std::vector<float> other(count);
        const int right = (rank.rank() + 1) % rank.size();
        const int left = (rank.rank() + rank.size() - 1) % rank.size();
        communicator.send_recv(std::span(data), right, std::span(other), left);
        for (const auto value : other) {
          expect(value == static_cast<float>(left), "WRONG DATA after send_recv");
        }
      }
      for (int i = 0; i < 300; ++i) communicator.barrier();
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("encrypted links work with short writes") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    set_encryption(true);
    ::setenv("TUTTI_FAULT", "short-writes:bytes=777", 1);
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<float> data(300'000);
    for (int i = 0; i < 5; ++i) reduce_and_check(rank, communicator, data);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a relay on the path can read plain links but not encrypted ones") {
  CHECK(is_read_on_the_path(false));
  CHECK_FALSE(is_read_on_the_path(true));
}

TEST_CASE("a bit changed on the path ends an encrypted job with an error that names the peer") {
  const auto tampered = run_tampered(LinkKind::data, 2);
  INFO(describe(tampered.reports));
  REQUIRE(tampered.done);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(tampered.reports[rank].failure);
    const auto& sentence = tampered.reports[rank].failure->sentence;
    CHECK(tampered.reports[rank].failure->code != ErrorCode::timeout);
    CHECK_FALSE(tampered.reports[rank].failure->failed_ranks.empty());
    CHECK(sentence.find(fmt::format("rank {}", 1 - rank)) != std::string::npos);
    CHECK(sentence.find("received data failed authentication") != std::string::npos);
  }
}

TEST_CASE("a bit changed on a control link leaves no survivors: all ranks report its two ends") {
  for (const int size : {2, 3, 5}) {
    CAPTURE(size);
    const auto tampered = run_tampered(LinkKind::control, size);
    INFO(describe(tampered.reports));
    REQUIRE(tampered.done);
    for (const auto& report : tampered.reports) {
      REQUIRE(report.failure);
      CHECK(report.failure->code == ErrorCode::system);
      CHECK(report.failure->failed_ranks.size() == 2);
      CHECK(report.failure->failed_ranks == tampered.reports[0].failure->failed_ranks);
      CHECK(report.failure->sentence.find("tampered with or damaged") != std::string::npos);
    }
  }
}

TEST_CASE("ranks that differ in encryption both report it and name each other") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    set_encryption(rank.rank() != 2);
    static_cast<void>(rank.communicator({.timeout = 20s}));
    return "met";
  });
  INFO(describe(reports));
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->failed_ranks == std::vector<int>{0, 2});
    CHECK(report.failure->sentence.find("TUTTI_ENCRYPT is \"0\" on rank 2") != std::string::npos);
    CHECK(report.failure->sentence.find("\"1\" on rank 0") != std::string::npos);
  }
}

TEST_CASE("survivors of an encrypted job stay encrypted") {
  Job job(3, [](Rank& rank) -> std::string {
    set_encryption(true);
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<float> data(1000);
    try {
      while (true) {
        reduce_and_check(rank, communicator, data);
        rank.mark();
      }
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::peer_lost, error.sentence());
    }
    auto rest = communicator.shrink();
    std::array<float, 1> one{1};
    for (int i = 0; i < 20; ++i) {
      one[0] = 1;
      rest.all_reduce(in_place, std::span(one), sum);
      expect(one[0] == 2, "WRONG DATA after shrink");
    }
    rest.finalize();
    return "done";
  });
  job.await_marks_of_all(5);
  job.signal(1, SIGKILL);
  const auto reports = job.finish();
  INFO(describe(reports));
  CHECK(reports[0].text == "done");
  CHECK(reports[2].text == "done");
}

}  // namespace tutti::test
