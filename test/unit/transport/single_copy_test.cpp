// Reads of another rank's memory, and messages that are read instead of sent. Both "ranks" are this
// process, which the kernel lets read itself.
#include "transport/single_copy.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "host.hpp"
#include "support/catch.hpp"
#include "support/random_seed.hpp"
#include "support/refused_reads.hpp"

namespace tutti::transport::test {
namespace {

constexpr std::size_t eager = 1024;
constexpr std::size_t bytes = 100'000;

struct SingleCopyHost : Host {
  explicit SingleCopyHost(SingleCopyUse use = SingleCopyUse::always) {
    first->single_copy().publish(use);
    second->single_copy().publish(use);
    CHECK(first->single_copy().probe().empty());
    CHECK(second->single_copy().probe().empty());
  }
  [[nodiscard]] HalfPair halves() {
    auto to = dial();
    return {eager, std::move(to), accept()};
  }
};

std::uint64_t address_of(const Buffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

/// Memory that another process can't read, nor this one.
struct Inaccessible {
  void* base = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Inaccessible() { REQUIRE(base != MAP_FAILED); }
  Inaccessible(const Inaccessible&) = delete;
  Inaccessible& operator=(const Inaccessible&) = delete;
  ~Inaccessible() { ::munmap(base, bytes); }
};

/// An incoming half with rings, whose sender the test writes.
struct RawSender {
  SingleCopyHost host;
  LinkEndpoint sender = host.dial();
  RecordingInspector inspector;
  IncomingHalf in{0, eager, inspector};

  RawSender() { in.connect(host.accept()); }
  void write(const Frame& frame) {
    auto header = encode(frame);
    sender.begin_frame_out();
    const std::array<iovec, 1> part{{{header.data(), header.size()}}};
    REQUIRE(sender.write(part) == static_cast<ssize_t>(header.size()));
    while (in.read()) {
    }
  }
};

}  // namespace

TEST_CASE("memory of a rank that published its witness can be read") {
  SingleCopyHost host;
  auto& reader = host.second->single_copy();
  CHECK(host.first->single_copy().is_read_by(1));
  const auto data = pattern(bytes);
  Buffer got(bytes);
  CHECK(reader.read(0, got.data(), address_of(data), bytes) == SingleCopy::Result::read);
  CHECK(got == data);
}

TEST_CASE("without the consent of all ranks, or without a reason given, nobody reads") {
  for (const bool first_refuses : {true, false}) {
    Host host;
    host.first->single_copy().publish(first_refuses ? SingleCopyUse::off
                                                    : SingleCopyUse::automatic);
    host.second->single_copy().publish(first_refuses ? SingleCopyUse::automatic
                                                     : SingleCopyUse::off);
    const auto willing = first_refuses ? host.second : host.first;
    CHECK(willing->single_copy().probe().find("has TUTTI_SINGLE_COPY=off") != std::string::npos);
    CHECK(host.first->single_copy().probe() != "");
    CHECK(host.second->single_copy().probe() != "");
    for (const int rank : {0, 1}) {
      CHECK(!host.first->single_copy().is_read_by(rank));
      CHECK(!host.second->single_copy().is_read_by(rank));
    }
  }
}

TEST_CASE("a process with another witness, as after its pid was reused, is not the rank") {
  std::array<MemoryAccess, 2> access{};
  Witness theirs;
  theirs.nonce = {1, 2};
  access[0].pid = ::getpid();
  access[0].witness = reinterpret_cast<std::uintptr_t>(&theirs);
  access[0].nonce = theirs.nonce;
  SingleCopy reader({&access[0], &access[1]}, 1);
  reader.publish(SingleCopyUse::automatic);
  REQUIRE(reader.probe().empty());
  const auto data = pattern(bytes);
  Buffer got(bytes);
  CHECK(reader.read(0, got.data(), address_of(data), bytes) == SingleCopy::Result::read);
  CHECK(got == data);
  theirs.nonce[1] = 3;
  CHECK(reader.read(0, got.data(), address_of(data), bytes) == SingleCopy::Result::gone);
  // Nothing of the other process's data remains.
  CHECK(got == Buffer(bytes));
  CHECK(reader.probe().find("can't read local rank 0") != std::string::npos);
}

TEST_CASE("refused memory is told apart from a process that has abandoned its calls") {
  SingleCopyHost host;
  const auto& reader = host.second->single_copy();
  const auto data = pattern(bytes);
  Buffer got(bytes);
  const Inaccessible none;
  CHECK(reader.read(0, got.data(), reinterpret_cast<std::uintptr_t>(none.base), bytes) ==
        SingleCopy::Result::refused);
  CHECK(!reader.is_readable(static_cast<const std::byte*>(none.base), bytes));
  CHECK(reader.is_readable(data.data(), bytes));
  host.first->single_copy().revoke();
  CHECK(reader.read(0, got.data(), address_of(data), bytes) == SingleCopy::Result::gone);
}

TEST_CASE("a child's memory is read while it lives, and its death is no data") {
  Host host;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const auto child = ::fork();
  if (child == 0) {
    // The mapping of the segment is not inherited: the child maps it anew.
    SharedSegment own(host.copy(), 0, 2);
    own.single_copy().publish(SingleCopyUse::always);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  auto& reader = host.second->single_copy();
  reader.publish(SingleCopyUse::always);
  REQUIRE(reader.probe().empty());
  // Memory that parent and child have at the same address.
  static const char text[] = "the same in parent and child";
  std::array<std::byte, sizeof text> got{};
  const auto address = reinterpret_cast<std::uintptr_t>(text);
  CHECK(reader.read(0, got.data(), address, got.size()) == SingleCopy::Result::read);
  CHECK(std::memcmp(got.data(), text, sizeof text) == 0);
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(reader.read(0, got.data(), address, got.size()) == SingleCopy::Result::gone);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("a long message is read from the sender's memory, and the sender waits for that") {
  SingleCopyHost host;
  auto halves = host.halves();
  Sending sending(collective(1, bytes), pattern(bytes));
  Receiving receiving(collective(1, bytes), bytes);
  SECTION("the receiver posts late") {
    halves.out.post(sending.request);
    halves.pump();
    CHECK(sending.request.sent == 0);
    // What the sender changes before the receiver comes is read: nothing was copied.
    sending.bytes[5] = std::byte{99};
    halves.in.post(receiving.request);
    CHECK(halves.in.has_ring_work());
  }
  SECTION("the receiver posts first") {
    halves.in.post(receiving.request);
    halves.out.post(sending.request);
  }
  halves.pump();
  CHECK(sending.request.done());
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  CHECK(halves.is_sound());
  CHECK(!halves.in.has_ring_work());
  halves.out.finish(sending.call.key);
  halves.in.finish(receiving.call.key);
}

TEST_CASE("an offer may cover several requests, and a stream several offers") {
  SingleCopyHost host;
  auto halves = host.halves();
  const auto call = collective(1);
  const auto all = pattern(2 * bytes);
  Buffer got(2 * bytes);
  std::array<SendRequest, 3> sends{};
  std::array<RecvRequest, 4> receives{};
  const std::array<std::size_t, 4> send_at{0, bytes, bytes + 100, 2 * bytes};
  const std::array<std::size_t, 5> receive_at{0, 30'000, bytes + 50, bytes + 60'000, 2 * bytes};
  for (std::size_t i = 0; i < sends.size(); ++i) {
    sends[i].call = &call;
    sends[i].from = std::span(all).subspan(send_at[i], send_at[i + 1] - send_at[i]);
    halves.out.post(sends[i]);
  }
  for (std::size_t i = 0; i < receives.size(); ++i) {
    halves.pump();
    receives[i].call = &call;
    receives[i].to = std::span(got).subspan(receive_at[i], receive_at[i + 1] - receive_at[i]);
    halves.in.post(receives[i]);
  }
  halves.pump();
  CHECK(got == all);
  for (const auto& send : sends) CHECK(send.done());
  for (const auto& receive : receives) CHECK(receive.done());
  CHECK(halves.is_sound());
}

TEST_CASE("a stream arrives in whatever requests each side cuts it into") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&random](std::size_t below) {
    return static_cast<std::size_t>(random() % below);
  };
  for (const auto use : {SingleCopyUse::always, SingleCopyUse::automatic}) {
    SingleCopyHost host(use);
    auto halves = host.halves();
    for (std::uint64_t number = 1; number <= 300; ++number) {
      const auto call = collective(number);
      const auto all = pattern(1 + draw(200'000), static_cast<unsigned>(number));
      Buffer got(all.size());
      // Few or many pieces of about one size, as algorithms cut their data.
      std::deque<SendRequest> sends;
      std::deque<RecvRequest> receives;
      std::size_t sent = 0;
      std::size_t received = 0;
      const auto send_piece = 1 + draw(draw(2) == 0 ? 2'000 : 100'000);
      const auto receive_piece = 1 + draw(draw(2) == 0 ? 2'000 : 100'000);
      while (sent < all.size() || received < all.size()) {
        const auto what = draw(5);
        if (what < 2 && sent < all.size()) {
          const auto count = std::min(all.size() - sent, 1 + draw(2 * send_piece));
          auto& request = sends.emplace_back();
          request.call = &call;
          request.from = std::span(all).subspan(sent, count);
          halves.out.post(request);
          sent += count;
        } else if (what < 4 && received < all.size()) {
          const auto count = std::min(all.size() - received, 1 + draw(2 * receive_piece));
          auto& request = receives.emplace_back();
          request.call = &call;
          request.to = std::span(got).subspan(received, count);
          halves.in.post(request);
          received += count;
        } else {
          halves.pump();
        }
      }
      halves.pump();
      INFO("stream " << number << " of " << all.size() << " bytes");
      REQUIRE(sends.back().done());
      REQUIRE(receives.back().done());
      REQUIRE(got == all);
      REQUIRE(halves.is_sound());
      halves.out.finish(call.key);
      halves.in.finish(call.key);
    }
  }
}

TEST_CASE("data that must be reduced is sent") {
  SingleCopyHost host;
  auto halves = host.halves();
  Sending sending(collective(1, bytes), pattern(bytes));
  Receiving receiving(collective(1, bytes), bytes);
  receiving.request.combine_with = receiving.bytes.data();
  receiving.request.reduce = [](std::byte* to, const std::byte* a, const std::byte* b,
                                std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i) to[i] = a[i] | b[i];
  };
  halves.in.post(receiving.request);
  halves.out.post(sending.request);
  halves.pump();
  CHECK(receiving.request.done());
  CHECK(sending.request.done());
  CHECK(receiving.bytes == sending.bytes);
  CHECK(halves.is_sound());
}

TEST_CASE("messages are sent if the kernel no longer lets the receiver read") {
  SingleCopyHost host;
  auto halves = host.halves();
  bool refuses = false;
  std::thread([&] {
    refuses = tutti::test::refuse_reads();
    if (!refuses) return;
    for (std::uint64_t number = 1; number <= 3; ++number) {
      Sending sending(collective(number, bytes), pattern(bytes, static_cast<unsigned>(number)));
      Receiving receiving(collective(number, bytes), bytes);
      halves.in.post(receiving.request);
      halves.out.post(sending.request);
      halves.pump();
      CHECK(receiving.request.done());
      CHECK(sending.request.done());
      CHECK(receiving.bytes == sending.bytes);
      halves.out.finish(sending.call.key);
      halves.in.finish(receiving.call.key);
    }
    CHECK(host.second->single_copy().probe().find("can't read") != std::string::npos);
  }).join();
  if (!refuses) WARN("this system does not let a thread refuse system calls to itself: not tested");
  CHECK(halves.is_sound());
}

TEST_CASE("measured: messages are read and sent in turn at first, with the right content") {
  SingleCopyHost host(SingleCopyUse::automatic);
  auto halves = host.halves();
  for (std::uint64_t number = 1; number <= 40; ++number) {
    Sending sending(collective(number, bytes), pattern(bytes, static_cast<unsigned>(number)));
    Receiving receiving(collective(number, bytes), bytes);
    halves.out.post(sending.request);
    if (number % 2 == 0) halves.pump();
    halves.in.post(receiving.request);
    halves.pump();
    REQUIRE(receiving.request.done());
    REQUIRE(sending.request.done());
    REQUIRE(receiving.bytes == sending.bytes);
    halves.out.finish(sending.call.key);
    halves.in.finish(receiving.call.key);
  }
  CHECK(halves.is_sound());
}

TEST_CASE("data of a sender that has abandoned its calls is not delivered") {
  SingleCopyHost host;
  auto halves = host.halves();
  Sending sending(collective(1, bytes), pattern(bytes));
  Receiving receiving(collective(1, bytes), bytes);
  halves.out.post(sending.request);
  halves.pump();
  host.first->single_copy().revoke();
  halves.in.post(receiving.request);
  halves.pump();
  CHECK(!receiving.request.done());
  CHECK(!sending.request.done());
  CHECK(!halves.in.has_ring_work());  // it waits for the failure report
}

TEST_CASE("offers that no correct peer makes end the link") {
  const Frame offer{.kind = FrameKind::offer, .payload = 100, .position = 1, .call = collective(1)};
  SECTION("two of one stream") {
    RawSender raw;
    raw.write(offer);
    CHECK(raw.in.failure().empty());
    raw.write(offer);
    CHECK(raw.in.failure() == "malformed frame from the peer");
  }
  SECTION("data while an offer is open") {
    RawSender raw;
    raw.write(offer);
    raw.write({.kind = FrameKind::eager, .payload = 1, .call = collective(1)});
    CHECK(raw.in.failure() == "malformed frame from the peer");
  }
  SECTION("one over a socket") {
    SocketPair pair;
    RecordingInspector inspector;
    IncomingHalf in(0, eager, inspector);
    in.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
    RawPeer peer(std::move(pair.other));
    peer.write(offer);
    in.read();
    CHECK(in.failure() == "malformed frame from the peer");
  }
}

TEST_CASE("answers that no correct peer gives end the link") {
  const auto answer = [](std::uint64_t sequence, std::uint64_t position) {
    return Frame{.kind = FrameKind::taken, .position = position, .call = collective(sequence)};
  };
  SingleCopyHost host;
  auto receiver = host.accept();
  RecordingInspector inspector;
  OutgoingHalf out(1, eager, inspector);
  out.connect(host.dial());
  REQUIRE(receiver.negotiate());
  const auto write = [&](const Frame& frame) {
    auto header = encode(frame);
    const std::array<iovec, 1> part{{{header.data(), header.size()}}};
    REQUIRE(receiver.write(part) == static_cast<ssize_t>(header.size()));
    out.read();
  };
  Sending sending(collective(1, bytes), pattern(bytes));
  out.post(sending.request);
  out.write();
  SECTION("to no offer") {
    write(answer(2, 10));
  }
  SECTION("beyond the offer") {
    write(answer(1, bytes + 1));
  }
  SECTION("twice") {
    write(answer(1, bytes));
    CHECK(sending.request.done());
    CHECK(out.failure().empty());
    write(answer(1, bytes));
  }
  CHECK(out.failure() == "malformed frame from the peer");
}

}  // namespace tutti::transport::test
