// Encoding and decoding of frame headers, valid and malformed.
#include "transport/frame.hpp"

#include "support/catch.hpp"

namespace tutti::transport::test {

namespace {

Frame sample(FrameKind kind, std::uint32_t payload) {
  return {.kind = kind,
          .payload = payload,
          .position = 0x1122334455667788,
          .call = {.key = {.communicator = 0xAABBCCDD,
                           .kind = StreamKind::message,
                           .tag = 0x01020304,
                           .sequence = 0x99AABBCCDDEEFF00},
                   .signature = {Operation::send_recv, Type::bf16, Operator::average, -1,
                                 0xFEDCBA9876543210},
                   .fingerprint = 0x0F1E2D3C4B5A6978}};
}

std::optional<Frame> with(Frame frame, std::size_t at, unsigned value) {
  auto header = encode(frame);
  header[at] = static_cast<std::byte>(value);
  return decode(header);
}

constexpr std::size_t kind_at = 0;
constexpr std::size_t stream_kind_at = 1;
constexpr std::size_t operation_at = 2;
constexpr std::size_t type_at = 3;
constexpr std::size_t op_at = 52;

}  // namespace

TEST_CASE("every kind of frame survives encoding and decoding") {
  for (const auto kind :
       {FrameKind::data, FrameKind::eager, FrameKind::request_to_send, FrameKind::clear_to_send,
        FrameKind::credit, FrameKind::offer, FrameKind::taken}) {
    const bool carries_data =
        kind == FrameKind::data || kind == FrameKind::eager || kind == FrameKind::offer;
    const auto frame = sample(kind, carries_data ? 77 : 0);
    const auto arrived = decode(encode(frame));
    REQUIRE(arrived);
    CHECK(arrived->kind == frame.kind);
    CHECK(arrived->payload == frame.payload);
    CHECK(arrived->position == frame.position);
    CHECK(arrived->call == frame.call);
  }
}

TEST_CASE("a header is little-endian on every machine") {
  const auto header = encode(sample(FrameKind::data, 0x00012345));
  CHECK(header[4] == std::byte{0x45});
  CHECK(header[5] == std::byte{0x23});
  CHECK(header[6] == std::byte{0x01});
  CHECK(header[7] == std::byte{0x00});
  CHECK(header[24] == std::byte{0x88});  // position
  CHECK(header[31] == std::byte{0x11});
}

TEST_CASE("only known values of each enumeration are accepted") {
  const auto frame = sample(FrameKind::data, 1);
  for (unsigned value = 0; value < 256; ++value) {
    INFO("value " << value);
    // Kinds 3 to 5 have no payload, but this frame has one.
    REQUIRE(with(frame, kind_at, value).has_value() ==
            (value == 1 || value == 2 || value == 6 || value == 7));
    REQUIRE(with(sample(FrameKind::clear_to_send, 0), kind_at, value).has_value() ==
            ((value >= 3 && value <= 5) || value == 7));
    REQUIRE(with(frame, stream_kind_at, value).has_value() == (value < 2));
    REQUIRE(with(frame, operation_at, value).has_value() == (value < operation_count));
    REQUIRE(with(frame, type_at, value).has_value() == (value < type_count));
    REQUIRE(with(frame, op_at, value).has_value() == (value < operator_count));
    REQUIRE(with(frame, op_at + 1, value).has_value() == (value < algorithm_id_count));
    for (const auto unused : {2U, 3U}) {
      REQUIRE(with(frame, op_at + unused, value).has_value() == (value == 0));
    }
  }
}

TEST_CASE("an empty or too long payload is refused") {
  constexpr auto max = static_cast<std::uint32_t>(max_payload_bytes);
  for (const auto kind : {FrameKind::data, FrameKind::eager}) {
    CHECK(!decode(encode(sample(kind, 0))));
    CHECK(decode(encode(sample(kind, 1))));
    CHECK(decode(encode(sample(kind, max))));
    CHECK(!decode(encode(sample(kind, max + 1))));
    CHECK(!decode(encode(sample(kind, UINT32_MAX))));
  }
}

TEST_CASE("an offer has a size, and its answer says whether the next ones are wanted") {
  CHECK(!decode(encode(sample(FrameKind::offer, 0))));
  CHECK(decode(encode(sample(FrameKind::offer, max_offered_bytes))));
  CHECK(!decode(encode(sample(FrameKind::offer, max_offered_bytes + 1))));
  CHECK(decode(encode(sample(FrameKind::taken, 1))));
  CHECK(!decode(encode(sample(FrameKind::taken, 2))));
}

TEST_CASE("only data frames and offers have a payload") {
  for (const auto kind :
       {FrameKind::request_to_send, FrameKind::clear_to_send, FrameKind::credit}) {
    CHECK(decode(encode(sample(kind, 0))));
    CHECK(!decode(encode(sample(kind, 1))));
  }
}

TEST_CASE("headers of zeros or ones are malformed") {
  FrameHeader header{};
  CHECK(!decode(header));
  header.fill(std::byte{0xFF});
  CHECK(!decode(header));
}

}  // namespace tutti::transport::test
