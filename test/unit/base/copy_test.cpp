// Both kinds of copies, at all alignments with different code paths.
#include "base/copy.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "support/catch.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t room = 8192;

struct alignas(4096) Memory {
  std::byte bytes[room];
};

void check(void (*copy)(std::byte*, const std::byte*, std::size_t)) {
  const auto from = std::make_unique<Memory>();
  const auto to = std::make_unique<Memory>();
  for (std::size_t i = 0; i < room; ++i) from->bytes[i] = static_cast<std::byte>(i * 37 + i / 256);
  constexpr std::byte untouched{0xEE};
  for (const std::size_t to_offset : {0U, 1U, 8U, 16U, 63U, 64U, 65U}) {
    for (const std::size_t from_offset : {0U, 3U, 32U}) {
      for (const std::size_t bytes :
           {0U, 1U, 63U, 64U, 65U, 127U, 128U, 200U, 513U, 2047U, 2048U, 2049U, 5000U}) {
        std::fill_n(to->bytes, room, untouched);
        copy(to->bytes + to_offset, from->bytes + from_offset, bytes);
        std::vector<std::byte> expected(room, untouched);
        std::copy_n(from->bytes + from_offset, bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to_offset));
        CHECK(std::equal(expected.begin(), expected.end(), to->bytes));
      }
    }
  }
}

}  // namespace

TEST_CASE("copy_bytes() writes all bytes and no others") {
  check(copy_bytes);
}

TEST_CASE("stream_bytes() writes all bytes and no others") {
  check(stream_bytes);
}

}  // namespace tutti::test
