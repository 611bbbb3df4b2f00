// Copies past the caches.
#include "base/copy.hpp"

#include <algorithm>
#include <vector>

#include "support/catch.hpp"

namespace tutti::test {

TEST_CASE("what is copied past the caches is all there, and nothing beside it") {
  constexpr std::size_t room = 1024;
  std::vector<std::byte> from(room);
  for (std::size_t i = 0; i < room; ++i) from[i] = static_cast<std::byte>(i * 37 + 1);
  constexpr std::byte untouched{0xEE};
  for (const std::size_t to_offset : {0U, 1U, 16U, 63U, 64U}) {
    for (const std::size_t from_offset : {0U, 3U, 32U}) {
      for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 200U, 513U}) {
        std::vector<std::byte> to(room, untouched);
        stream_bytes(to.data() + to_offset, from.data() + from_offset, bytes);
        auto expected = std::vector<std::byte>(room, untouched);
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to_offset));
        CHECK(to == expected);
      }
    }
  }
}

}  // namespace tutti::test
