// Encoding of messages on control links.
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

ControlMessage sample() {
  return {ControlMessageKind::proposal, 3, 5, 0xDEADBEEF, body_of(20)};
}

PastCall past_call(std::uint64_t sequence) {
  return {sequence,
          {Operation::broadcast, Type::f64, Operator::max, 4, sequence * 1'000'000'007},
          sequence * 0x9E3779B97F4A7C15U};
}

}  // namespace

TEST_CASE("a message with a body of any length survives encoding and decoding") {
  for (const std::size_t length : {0, 1, 20, 60'000}) {
    auto message = sample();
    message.body = body_of(length);
    const auto arrived = ControlMessage::decode(message.encode(), 8);
    REQUIRE(arrived);
    CHECK(arrived->kind == message.kind);
    CHECK(arrived->origin == message.origin);
    CHECK(arrived->target == message.target);
    CHECK(arrived->serial == message.serial);
    CHECK(arrived->body == message.body);
  }
}

TEST_CASE("a message to all ranks is decoded as such") {
  auto message = sample();
  message.target = all_ranks;
  const auto arrived = ControlMessage::decode(message.encode(), 8);
  REQUIRE(arrived);
  CHECK(arrived->target == all_ranks);
}

TEST_CASE("a truncated envelope is rejected") {
  const auto bytes = sample().encode();
  for (std::size_t length = 0; length < envelope_bytes; ++length) {
    INFO("length " << length);
    REQUIRE(!ControlMessage::decode(std::span(bytes).first(length), 8));
  }
  CHECK(ControlMessage::decode(std::span(bytes).first(envelope_bytes), 8));
}

TEST_CASE("unknown kinds of messages are rejected") {
  for (unsigned kind = 0; kind < 256; ++kind) {
    auto bytes = sample().encode();
    bytes[0] = static_cast<std::byte>(kind);
    const bool is_known = kind >= static_cast<unsigned>(ControlMessageKind::evidence) &&
                          kind <= static_cast<unsigned>(ControlMessageKind::status);
    INFO("kind " << kind);
    REQUIRE(ControlMessage::decode(bytes, 8).has_value() == is_known);
  }
}

TEST_CASE("a message from or to a rank out of range is rejected") {
  CHECK(!ControlMessage::decode(sample().encode(), 5));
  CHECK(!ControlMessage::decode(sample().encode(), 3));
  CHECK(ControlMessage::decode(sample().encode(), 6));
  auto bytes = sample().encode();
  bytes[4] = std::byte{0xFF};  // origin 0xFF000003
  CHECK(!ControlMessage::decode(bytes, 8));
  bytes = sample().encode();
  for (std::size_t i = 1; i < 5; ++i) bytes[i] = std::byte{0xFF};  // only a target may be all_ranks
  CHECK(!ControlMessage::decode(bytes, 8));
}

TEST_CASE("calls survive encoding and decoding, up to the size of the history") {
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

TEST_CASE("calls that are truncated, too many or of an unknown operation are rejected") {
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
    status.unacknowledged.push_back(
        {.peer = static_cast<int>(i % 5),
         .data = {.bytes = 4344 + i, .times = 3, .packet_bytes = 1500, .is_ipv6 = i % 2 == 1}});
  }
  return status;
}

}  // namespace

TEST_CASE("a status with unacknowledged data survives encoding and decoding") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, max_unacknowledged_reported}) {
    const auto status = status_with(count);
    const auto arrived = decode_status(encode_status({7, status}), 5);
    REQUIRE(arrived);
    CHECK(arrived->communicator == 7);
    CHECK(arrived->status.activity.in_call);
    CHECK(arrived->status.activity.sequence == 9);
    CHECK(arrived->status.activity.call == status.activity.call);
    CHECK(arrived->status.unacknowledged == status.unacknowledged);
  }
  const auto cut =
      decode_status(encode_status({7, status_with(max_unacknowledged_reported + 3)}), 5);
  REQUIRE(cut);
  CHECK(cut->status.unacknowledged.size() == max_unacknowledged_reported);
}

TEST_CASE("a status that is truncated, or has ranks out of range or too many, is rejected") {
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

TEST_CASE("a call signature survives encoding and decoding, with and without a root") {
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
