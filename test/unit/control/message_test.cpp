// The bytes on control links.
#include "control/message.hpp"

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

constexpr std::size_t envelope_bytes = 13;

Bytes body_of(std::size_t length) {
  Bytes body(length);
  for (std::size_t i = 0; i < length; ++i) body[i] = static_cast<std::byte>(i * 7);
  return body;
}

Message sample() {
  return {MessageKind::proposal, 3, 5, 0xDEADBEEF, body_of(20)};
}

PastCall past_call(std::uint64_t sequence) {
  return {sequence,
          {Operation::broadcast, Type::f64, Operator::max, 4, sequence * 1'000'000'007},
          sequence * 0x9E3779B97F4A7C15U};
}

}  // namespace

TEST_CASE("a message survives the way, with a body of any length") {
  for (const std::size_t length : {0, 1, 20, 60'000}) {
    auto message = sample();
    message.body = body_of(length);
    const auto arrived = Message::decode(message.encode(), 8);
    REQUIRE(arrived);
    CHECK(arrived->kind == message.kind);
    CHECK(arrived->origin == message.origin);
    CHECK(arrived->target == message.target);
    CHECK(arrived->serial == message.serial);
    CHECK(arrived->body == message.body);
  }
}

TEST_CASE("a message to everybody arrives as one") {
  auto message = sample();
  message.target = everybody;
  const auto arrived = Message::decode(message.encode(), 8);
  REQUIRE(arrived);
  CHECK(arrived->target == everybody);
}

TEST_CASE("an envelope cut short is no message") {
  const auto bytes = sample().encode();
  for (std::size_t length = 0; length < envelope_bytes; ++length) {
    INFO("length " << length);
    REQUIRE(!Message::decode(std::span(bytes).first(length), 8));
  }
  CHECK(Message::decode(std::span(bytes).first(envelope_bytes), 8));
}

TEST_CASE("only the known kinds of message are read") {
  for (unsigned kind = 0; kind < 256; ++kind) {
    auto bytes = sample().encode();
    bytes[0] = static_cast<std::byte>(kind);
    const bool is_known = kind >= static_cast<unsigned>(MessageKind::evidence) &&
                          kind <= static_cast<unsigned>(MessageKind::status);
    INFO("kind " << kind);
    REQUIRE(Message::decode(bytes, 8).has_value() == is_known);
  }
}

TEST_CASE("a message from or to a rank out of range is none") {
  CHECK(!Message::decode(sample().encode(), 5));
  CHECK(!Message::decode(sample().encode(), 3));
  CHECK(Message::decode(sample().encode(), 6));
  auto bytes = sample().encode();
  bytes[4] = std::byte{0xFF};  // origin 0xFF000003
  CHECK(!Message::decode(bytes, 8));
  bytes = sample().encode();
  for (std::size_t i = 1; i < 5; ++i) bytes[i] = std::byte{0xFF};  // only a target may be everybody
  CHECK(!Message::decode(bytes, 8));
}

TEST_CASE("calls survive the way, up to as many as a rank remembers") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, CallHistory::kept}) {
    std::vector<PastCall> calls;
    for (std::size_t i = 1; i <= count; ++i) calls.push_back(past_call(i));
    const auto arrived = decode_calls(encode_calls(7, calls));
    REQUIRE(arrived);
    REQUIRE(arrived->communicator == 7);
    REQUIRE(arrived->calls.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(arrived->calls[i].sequence == calls[i].sequence);
      REQUIRE(arrived->calls[i].fingerprint == calls[i].fingerprint);
      REQUIRE(arrived->calls[i].call == calls[i].call);
    }
  }
}

TEST_CASE("calls cut short, too many or of no known operation are refused") {
  const auto bytes = encode_calls(7, {past_call(1), past_call(2)});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("length " << length);
    REQUIRE(!decode_calls(std::span(bytes).first(length)));
  }
  std::vector<PastCall> too_many(CallHistory::kept + 1, past_call(1));
  CHECK(!decode_calls(encode_calls(7, too_many)));
  auto lying = bytes;
  lying[4] = std::byte{0xFF};
  lying[5] = std::byte{0xFF};
  CHECK(!decode_calls(lying));
  auto unknown = bytes;
  constexpr std::size_t first_operation = 4 + 2 + 8 + 8;
  unknown[first_operation] = static_cast<std::byte>(operation_count);
  CHECK(!decode_calls(unknown));
}

namespace {

Status status_with(std::size_t lost) {
  Status status;
  status.activity.in_call = true;
  status.activity.sequence = 9;
  status.activity.call = {Operation::all_reduce, Type::f32, Operator::sum, -1, 100};
  for (std::size_t i = 0; i < lost; ++i) {
    status.lost.push_back(
        {.peer = static_cast<int>(i % 5),
         .data = {.bytes = 4344 + i, .times = 3, .packet_bytes = 1500, .is_ipv6 = i % 2 == 1}});
  }
  return status;
}

}  // namespace

TEST_CASE("a status survives the way, with what was sent in vain") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, max_unacknowledged_reported}) {
    const auto status = status_with(count);
    const auto arrived = decode_status(encode_status({7, status}), 5);
    REQUIRE(arrived);
    CHECK(arrived->communicator == 7);
    CHECK(arrived->status.activity.in_call);
    CHECK(arrived->status.activity.sequence == 9);
    CHECK(arrived->status.activity.call == status.activity.call);
    CHECK(arrived->status.lost == status.lost);
  }
  const auto cut =
      decode_status(encode_status({7, status_with(max_unacknowledged_reported + 3)}), 5);
  REQUIRE(cut);
  CHECK(cut->status.lost.size() == max_unacknowledged_reported);
}

TEST_CASE("a status cut short, of ranks out of range or of too many is refused") {
  const auto bytes = encode_status({7, status_with(2)});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("length " << length);
    REQUIRE(!decode_status(std::span(bytes).first(length), 5));
  }
  CHECK(!decode_status(bytes, 1));
  CHECK(decode_status(bytes, 2));
  auto lying = encode_status({7, status_with(0)});
  lying.back() = static_cast<std::byte>(max_unacknowledged_reported + 1);
  lying.resize(lying.size() + 1000);
  CHECK(!decode_status(lying, 5));
}

TEST_CASE("a call signature survives the way, also without a root") {
  for (const std::int32_t root : {-1, 0, 12'345}) {
    const CallSignature call{Operation::recv, Type::bf16, Operator::average, root, UINT64_MAX};
    ByteWriter writer;
    encode_signature(writer, call);
    ByteReader reader(writer.bytes());
    CHECK(decode_signature(reader) == call);
    CHECK(reader.at_end());
  }
}

}  // namespace tutti::control::test
