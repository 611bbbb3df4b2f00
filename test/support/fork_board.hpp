#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

/// Memory that the forked ranks and their parent share.
namespace tutti::test {

inline constexpr int max_ranks = 256;
inline constexpr std::size_t message_space = std::size_t{16} << 10;
inline constexpr std::size_t report_room = std::size_t{128} << 10;
inline constexpr std::size_t said_space = std::size_t{8} << 10;

// Several processes map this memory: atomics must be lock-free, and no member may hold a pointer.
struct Board {
  struct Message {
    std::uint32_t length;
    std::array<std::byte, message_space> bytes;
  };
  struct Cell {
    // For the bootstrap. Two messages, since a rank may be one exchange ahead of its peers.
    std::atomic<std::uint64_t> round;
    std::array<Message, 2> messages;
    // Read by the parent.
    std::atomic<std::uint64_t> marks;
    std::atomic<std::int64_t> stamp;
    std::atomic<std::uint32_t> said_length;
    std::array<char, said_space> said;
    std::atomic<std::int64_t> ended;
    std::atomic<std::uint32_t> report_length;  // 0: no report
    std::array<std::byte, report_room> report;
  };
  int size;
  std::atomic<bool> go;
  std::array<Cell, max_ranks> cells;

  Cell& cell(int rank) { return cells[static_cast<std::size_t>(rank)]; }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace tutti::test
