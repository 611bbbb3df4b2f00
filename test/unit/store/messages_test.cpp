// What the store's messages carry: join requests, errors, results.
#include "base/bytes.hpp"
#include "store/side.hpp"
#include "support/catch.hpp"

namespace tutti::store::test {

using namespace std::chrono_literals;

namespace {

Bytes bytes(std::string_view text) {
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

Bytes gathered(const std::vector<Bytes>& parts) {
  ByteWriter writer;
  for (const auto& part : parts) writer.put(static_cast<std::uint32_t>(part.size())).put(part);
  return std::move(writer).bytes();
}

}  // namespace

TEST_CASE("a join request tells size, pid and host") {
  const JoinRequest join{.size = 4, .pid = 4711, .host = "node1"};
  const auto decoded = JoinRequest::decode(join.encode());
  CHECK(decoded.size == 4);
  CHECK(decoded.pid == 4711);
  CHECK(decoded.describe(2) == "rank 2 (node1, pid 4711)");
  CHECK(JoinRequest::own(8).size == 8);
  CHECK(JoinRequest::own(8).encode().size() <= max_join);
}

TEST_CASE("a join request of another version fits no job") {
  CHECK(JoinRequest::decode({}).size == 0);
  CHECK(JoinRequest::decode(bytes("x")).size == 0);
}

TEST_CASE("an error survives encoding and decoding") {
  for (const auto code : {ErrorCode::usage, ErrorCode::mismatch, ErrorCode::timeout,
                          ErrorCode::peer_lost, ErrorCode::aborted, ErrorCode::system}) {
    const auto decoded = decode_error(encode(Error(code, "what failed", {3, 1})));
    CHECK(decoded.code() == code);
    CHECK(decoded.sentence() == "what failed");
    CHECK(decoded.failed_ranks() == Error(code, "what failed", {3, 1}).failed_ranks());
  }
}

TEST_CASE("an error is encoded with at most 64 ranks and 4096 characters") {
  std::vector<int> ranks(1000);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  const auto decoded =
      decode_error(encode(Error(ErrorCode::timeout, std::string(10000, 'x'), ranks)));
  CHECK(decoded.failed_ranks().size() == 64);
  CHECK(decoded.sentence().size() == 4096);
}

TEST_CASE("a malformed error is one of rank 0's version") {
  auto good = encode(Error(ErrorCode::timeout, "late", {1}));
  auto unknown_code = good;
  unknown_code[0] = std::byte{200};
  good.pop_back();
  for (const auto& malformed : {Bytes{}, good, unknown_code}) {
    CHECK(decode_error(malformed).code() == ErrorCode::mismatch);
    CHECK(decode_error(malformed).sentence() ==
          "rank 0 sent a malformed error: it runs another version of tutti");
  }
}

TEST_CASE("an all-gather's result splits into the contributions, also empty ones") {
  const std::vector<Bytes> parts{bytes("zero"), {}, bytes("two")};
  const auto table = gathered(parts);
  CHECK(split_gathered(table, 3) == parts);
  CHECK_FALSE(split_gathered(table, 2));
  CHECK_FALSE(split_gathered(table, 4));
  for (std::size_t size = 0; size < table.size(); ++size) {
    CHECK_FALSE(
        split_gathered({table.begin(), table.begin() + static_cast<std::ptrdiff_t>(size)}, 3));
  }
  auto too_long = table;
  too_long[0] = std::byte{255};
  CHECK_FALSE(split_gathered(too_long, 3));
}

TEST_CASE("only the root contributes to a broadcast, all to the others") {
  CHECK(contributes(StoreOperation::broadcast, 2, 2));
  CHECK_FALSE(contributes(StoreOperation::broadcast, 1, 2));
  CHECK(contributes(StoreOperation::all_gather, 1, 2));
  CHECK(contributes(StoreOperation::barrier, 1, 2));
}

TEST_CASE("the remaining time on the wire is at most an hour") {
  CHECK(remaining_ms(Deadline::never()) == 3'600'000);
  CHECK(remaining_ms(Deadline::after(24h)) == 3'600'000);
  CHECK(remaining_ms(Deadline::after(0ms)) == 0);
  const auto left = remaining_ms(Deadline::after(10min));
  CHECK(left <= 600'000);
  CHECK(left > 0);
}

}  // namespace tutti::store::test
