// The in-memory links that tests run schedules over.
#include "support/memory_links.hpp"

#include "support/catch.hpp"

namespace tutti::transport::test {

namespace {

struct Pair {
  explicit Pair(std::size_t piece)
      : sender(network, 0, piece), receiver(network, 1, piece), from(20), to(20) {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
    send = {.peer = 1, .call = &call, .from = from};
    recv.peer = 0;
    recv.call = &call;
    recv.to = to;
  }

  MemoryNetwork network;
  MemoryLinks sender;
  MemoryLinks receiver;
  std::vector<std::byte> from;
  std::vector<std::byte> to;
  CallContext call{.key = {.sequence = 1}};
  SendRequest send;
  RecvRequest recv;
};

}  // namespace

TEST_CASE("nothing moves before both sides have posted") {
  Pair pair(100);
  pair.sender.post(pair.send);
  CHECK(!pair.sender.progress({}));
  CHECK(pair.send.sent == 0);
  pair.receiver.post(pair.recv);
  CHECK(pair.receiver.progress({}));
  CHECK(pair.send.done());
  CHECK(pair.recv.done());
  CHECK(pair.to == pair.from);
  CHECK(!pair.sender.progress({}));
}

TEST_CASE("one piece moves at a time") {
  Pair pair(3);
  pair.receiver.post(pair.recv);
  pair.sender.post(pair.send);
  for (std::size_t moved = 3; moved < 20; moved += 3) {
    CHECK(pair.sender.progress({}));
    CHECK(pair.send.sent == moved);
    CHECK(pair.recv.received == moved);
  }
  CHECK(pair.sender.progress({}));
  CHECK(pair.to == pair.from);
}

TEST_CASE("no more moves than the receiver has space for") {
  Pair pair(100);
  pair.recv.to = std::span(pair.to).first(8);
  pair.receiver.post(pair.recv);
  pair.sender.post(pair.send);
  pair.sender.progress({});
  CHECK(pair.send.sent == 8);
  CHECK(pair.recv.done());
  RecvRequest rest;
  rest.peer = 0;
  rest.call = &pair.call;
  rest.to = std::span(pair.to).subspan(8);
  pair.receiver.post(rest);
  pair.sender.progress({});
  CHECK(pair.send.done());
  CHECK(pair.to == pair.from);
}

TEST_CASE("another key or the reverse direction is another stream") {
  Pair pair(100);
  pair.sender.post(pair.send);
  CallContext other{.key = {.sequence = 2}};
  pair.recv.call = &other;
  pair.receiver.post(pair.recv);
  RecvRequest wrong_way;
  std::vector<std::byte> buffer(20);
  wrong_way.peer = 1;
  wrong_way.call = &pair.call;
  wrong_way.to = buffer;
  pair.sender.post(wrong_way);
  CHECK(!pair.sender.progress({}));
}

}  // namespace tutti::transport::test
