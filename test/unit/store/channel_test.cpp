// Messages of the store over a socket.
#include "store/channel.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>

#include "base/bytes.hpp"
#include "support/catch.hpp"
#include "tutti/deadline.hpp"

namespace tutti::store::test {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20;

/// One end of a connection, and what arrived there.
struct End {
  std::vector<StoreMessage> messages;
  std::vector<std::string> closed;
  Channel channel;

  End(Reactor& reactor, Descriptor socket)
      : channel(
            reactor, std::move(socket), max_bytes,
            [this](StoreMessage message) { messages.push_back(std::move(message)); },
            [this](const std::string& reason) { closed.push_back(reason); }) {}
  End(const End&) = delete;
  End& operator=(const End&) = delete;
};

struct Sockets {
  Descriptor one;
  Descriptor other;

  Sockets() {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) != 0) {
      throw std::runtime_error("can't make a socket pair");
    }
    one = Descriptor(fds[0]);
    other = Descriptor(fds[1]);
  }
};

template <class Holds>
bool run_until(Reactor& reactor, Holds holds) {
  const auto deadline = Deadline::after(20s);
  while (!holds() && !deadline.expired()) reactor.run_once(10ms);
  return holds();
}

Bytes filled(std::size_t size) {
  Bytes result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<std::byte>(i * 7);
  return result;
}

/// A header as Channel::send() writes it.
Bytes header(std::uint8_t kind, std::uint8_t operation, std::uint16_t zero, std::uint32_t length) {
  ByteWriter writer;
  writer.put(kind).put(operation).put(zero).put(std::uint32_t{0}).put(std::uint32_t{0}).put(length);
  return std::move(writer).bytes();
}

/// The reason for which a channel closes that receives these bytes.
std::string end_after(const Bytes& received) {
  Reactor reactor;
  Sockets sockets;
  End end(reactor, std::move(sockets.one));
  REQUIRE(::send(sockets.other.get(), received.data(), received.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(received.size()));
  REQUIRE(run_until(reactor, [&] { return !end.closed.empty(); }));
  CHECK(end.closed.size() == 1);
  CHECK(end.messages.empty());
  return end.closed[0];
}

}  // namespace

TEST_CASE("messages of any size arrive whole and in order, in both directions") {
  Reactor reactor;
  Sockets sockets;
  End one(reactor, std::move(sockets.one));
  End other(reactor, std::move(sockets.other));
  const std::vector<std::size_t> sizes{0, 1, 15, 16, 17, 100'000, 0, max_bytes};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    one.channel.send({.kind = StoreMessageKind::contribution,
                      .operation = StoreOperation::all_gather,
                      .round = static_cast<std::uint32_t>(i),
                      .timeout_ms = 500,
                      .payload = filled(sizes[i])});
  }
  CHECK_FALSE(one.channel.flushed());  // more than the socket holds
  other.channel.send({.kind = StoreMessageKind::join, .payload = filled(3)});
  REQUIRE(run_until(
      reactor, [&] { return other.messages.size() == sizes.size() && one.messages.size() == 1; }));
  CHECK(one.channel.flushed());
  CHECK(one.messages[0].kind == StoreMessageKind::join);
  CHECK(one.messages[0].payload == filled(3));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto& message = other.messages[i];
    CHECK(message.kind == StoreMessageKind::contribution);
    CHECK(message.operation == StoreOperation::all_gather);
    CHECK(message.round == i);
    CHECK(message.timeout_ms == 500);
    CHECK(message.payload == filled(sizes[i]));
  }
}

TEST_CASE("a malformed header ends the channel") {
  const std::string malformed = "it sent a malformed message";
  CHECK(end_after(header(0, 0, 0, 0)) == malformed);
  CHECK(end_after(header(5, 0, 0, 0)) == malformed);
  CHECK(end_after(header(1, 4, 0, 0)) == malformed);
  CHECK(end_after(header(1, 0, 1, 0)) == malformed);
}

TEST_CASE("a message above the maximum ends the channel before its payload arrives") {
  CHECK(end_after(header(1, 0, 0, max_bytes + 1)) ==
        "it sent a message of 1048577 bytes, the maximum is 1048576");
}

TEST_CASE("the peer's end is reported once, after the messages before it") {
  Reactor reactor;
  Sockets sockets;
  End end(reactor, std::move(sockets.one));
  {
    End peer(reactor, std::move(sockets.other));
    peer.channel.send({.kind = StoreMessageKind::result, .payload = filled(10)});
    CHECK(peer.channel.flushed());
  }
  REQUIRE(run_until(reactor, [&] { return !end.closed.empty(); }));
  CHECK(end.messages.size() == 1);
  CHECK(end.closed == std::vector<std::string>{"it closed the connection"});
  end.channel.send({.kind = StoreMessageKind::result});
  CHECK(end.channel.flushed());
  reactor.run_once(0ms);
  CHECK(end.closed.size() == 1);
}

TEST_CASE("an end within a message reports no message") {
  Reactor reactor;
  Sockets sockets;
  End end(reactor, std::move(sockets.one));
  auto partial = header(2, 1, 0, 100);
  partial.resize(partial.size() + 50);
  REQUIRE(::send(sockets.other.get(), partial.data(), partial.size(), MSG_NOSIGNAL) > 0);
  sockets.other.reset();
  REQUIRE(run_until(reactor, [&] { return !end.closed.empty(); }));
  CHECK(end.messages.empty());
}

}  // namespace tutti::store::test
