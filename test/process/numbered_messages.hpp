#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "pattern.hpp"

// Messages whose elements tell sender and number.
namespace tutti::test {

/// Element values of message `number`.
inline int source_of(int from, int number) {
  return from * 1000 + number;
}

inline void send(Communicator& communicator, int to, std::size_t count, int number,
                 std::uint32_t tag = 0, std::size_t offset = 0) {
  Buffer<std::uint8_t> buffer(count, offset);
  buffer.fill_from(source_of(communicator.rank(), number));
  communicator.send(std::span(buffer.data(), count), to, {.tag = tag});
}

inline void recv(Communicator& communicator, int from, std::size_t count, int number,
                 std::uint32_t tag = 0, std::size_t offset = 0) {
  Buffer<std::uint8_t> buffer(count, offset);
  buffer.fill_from(999999);
  communicator.recv(std::span(buffer.data(), count), from, {.tag = tag});
  buffer.require_from(source_of(from, number),
                      fmt::format("message {} of {} bytes, tag {}", number, count, tag));
}

}  // namespace tutti::test
