// Encoding and decoding of byte strings, valid and hostile.
#include "base/bytes.hpp"

#include "support/catch.hpp"

namespace tutti::test {

namespace {

Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes result;
  for (const auto value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

}  // namespace

TEST_CASE("integers are written little-endian") {
  ByteWriter writer;
  writer.put(std::uint8_t{1}).put(std::uint16_t{0x0203}).put(std::uint32_t{0x04050607});
  CHECK(writer.bytes() == bytes_of({1, 3, 2, 7, 6, 5, 4}));
}

TEST_CASE("values survive encoding and decoding") {
  ByteWriter writer;
  const std::array<std::byte, 3> raw{std::byte{9}, std::byte{8}, std::byte{7}};
  writer.put(std::uint64_t{0x8000000000000001})
      .put_string("")
      .put(std::span(raw))
      .put_string("text")
      .put(std::uint8_t{255});
  ByteReader reader(writer.bytes());
  CHECK(reader.get<std::uint64_t>() == 0x8000000000000001);
  CHECK(reader.get_string().empty());
  std::array<std::byte, 3> got{};
  reader.get(std::span(got));
  CHECK(got == raw);
  CHECK(!reader.at_end());
  CHECK(reader.left() == 7);
  CHECK(reader.get_string() == "text");
  CHECK(reader.get<std::uint8_t>() == 255);
  CHECK(reader.ok());
  CHECK(reader.at_end());
}

TEST_CASE("a string can contain any bytes") {
  const std::string text("a\0b\xFF", 4);
  ByteWriter writer;
  writer.put_string(text);
  ByteReader reader(writer.bytes());
  CHECK(reader.get_string() == text);
}

TEST_CASE("a string of more than 65535 bytes is truncated") {
  ByteWriter writer;
  writer.put_string(std::string(70'000, 'x'));
  CHECK(writer.bytes().size() == 2 + 65'535);
  ByteReader reader(writer.bytes());
  CHECK(reader.get_string().size() == 65'535);
  CHECK(reader.ok());
}

TEST_CASE("a read past the end fails, and so does every later one") {
  const auto bytes = bytes_of({1, 2, 3});
  ByteReader reader(bytes);
  CHECK(reader.get<std::uint32_t>() == 0);
  CHECK(!reader.ok());
  CHECK(reader.get<std::uint8_t>() == 0);  // although a byte is left
  CHECK(reader.get_string().empty());
  CHECK(!reader.ok());
}

TEST_CASE("reading up to the exact end succeeds") {
  const auto bytes = bytes_of({1, 2});
  ByteReader reader(bytes);
  CHECK(reader.get<std::uint16_t>() == 0x0201);
  CHECK(reader.ok());
  CHECK(reader.at_end());
  CHECK(reader.get<std::uint8_t>() == 0);
  CHECK(!reader.ok());
}

TEST_CASE("every read of empty input fails") {
  ByteReader reader({});
  CHECK(reader.ok());
  CHECK(reader.at_end());
  CHECK(reader.get_string().empty());
  CHECK(!reader.ok());
}

TEST_CASE("the length of a string is checked against the remaining bytes") {
  for (const auto& bytes : {bytes_of({0xFF, 0xFF, 'a', 'b'}), bytes_of({3, 0, 'a', 'b'}),
                            bytes_of({1, 0}), bytes_of({0})}) {
    ByteReader reader(bytes);
    CHECK(reader.get_string().empty());
    CHECK(!reader.ok());
  }
}

TEST_CASE("a failed read leaves its target unchanged") {
  const auto bytes = bytes_of({1, 2});
  ByteReader reader(bytes);
  std::array<std::byte, 3> out{std::byte{7}, std::byte{7}, std::byte{7}};
  reader.get(std::span(out));
  CHECK(!reader.ok());
  CHECK(out[0] == std::byte{7});
}

}  // namespace tutti::test
