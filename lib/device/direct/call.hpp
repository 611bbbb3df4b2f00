#pragma once

#include <cstddef>
#include <cstdint>

/// The memory through which the GPUs of one host exchange data directly, and the parameters of one
/// call: compiled for the GPU by kernels.cu, and for the CPU by the library and its tests.
/// docs/decisions/0030 describes the protocol.
namespace tutti::device::direct {

/// Ranks that one communicator's direct path serves.
inline constexpr int max_ranks = 16;
/// Channels are independent: each has slots, sequence numbers and credits of its own, and is driven
/// by one thread block.
inline constexpr int max_channels = 32;
/// A sender is at most this many rounds ahead of a receiver.
inline constexpr int slots = 4;

/// Data and the sequence number of its round, stored by one instruction: a receiver that sees the
/// number sees the data.
struct alignas(16) Packet {
  std::uint64_t data;
  std::uint64_t sequence;
};
inline constexpr int packets_in_slot = 1024;
inline constexpr int data_in_packet = 8;
/// Bytes that a channel carries in one round, in packets.
inline constexpr std::size_t packet_slot_bytes = std::size_t{packets_in_slot} * data_in_packet;

/// Bytes that a channel carries in one round, in a chunk: plain data, then a word that says it is
/// there.
inline constexpr std::size_t chunk_slot_bytes = std::size_t{32} << 10;

/// Sets of channels.
enum class Protocol : int {
  packets = 0,  ///< few bytes: half of what travels is sequence numbers
  chunks = 1,   ///< many: all that travels is data, but each chunk pays for a fence
  windows = 2,  ///< many, in buffers that the peers access in place: nothing is copied twice
};
inline constexpr int protocol_count = 3;

/// Windows are buffers of all ranks of the group that its kernels access in place.
inline constexpr int max_windows = 256;
/// Where a buffer is: the number of its window, and the bytes from the window's begin.
struct Place {
  static constexpr int offset_bits = 48;
  std::uint64_t window;
  std::uint64_t offset;

  [[nodiscard]] constexpr std::uint64_t in_one_word() const {
    return window << offset_bits | offset;
  }
  static constexpr Place of_word(std::uint64_t word) {
    return {word >> offset_bits, word & ((std::uint64_t{1} << offset_bits) - 1)};
  }
};
/// The buffers whose places a rank tells its peers.
inline constexpr int send_buffer = 0;
inline constexpr int recv_buffer = 1;

/// Offsets in a rank's staging memory, which its peers write; all zero at first.
struct Layout {
  int ranks;

  [[nodiscard]] constexpr std::size_t packets() const { return 0; }
  [[nodiscard]] constexpr std::size_t chunks() const {
    return packets() + std::size_t(ranks) * max_channels * slots * packets_in_slot * sizeof(Packet);
  }
  /// A word for each protocol, rank and channel: the latest round that the rank has read.
  [[nodiscard]] constexpr std::size_t credits() const {
    return chunks() + std::size_t(ranks) * max_channels * slots * chunk_slot_bytes;
  }
  /// The same: the latest round whose chunk the rank has stored.
  [[nodiscard]] constexpr std::size_t ready() const { return credits() + words() * 8; }
  /// For each protocol and channel: the latest turn and round of this rank.
  [[nodiscard]] constexpr std::size_t progress() const { return ready() + words() * 8; }
  /// A word for each rank: not 0 once it stores nothing more.
  [[nodiscard]] constexpr std::size_t closed() const {
    return progress() + std::size_t{protocol_count} * max_channels * sizeof(Packet);
  }
  /// A word: changes every few milliseconds while a kernel of this rank waits for another rank.
  [[nodiscard]] constexpr std::size_t waits() const { return closed() + std::size_t(ranks) * 8; }
  /// A packet for each rank, channel and buffer: the place of the rank's buffer, stored by it.
  [[nodiscard]] constexpr std::size_t places() const {
    return (waits() + 8 + sizeof(Packet) - 1) / sizeof(Packet) * sizeof(Packet);
  }
  /// An address for each window and rank, as this rank's GPU sees it; stored by the host.
  [[nodiscard]] constexpr std::size_t windows() const {
    return places() + std::size_t(ranks) * max_channels * 2 * sizeof(Packet);
  }
  [[nodiscard]] constexpr std::size_t bytes() const {
    return windows() + std::size_t{max_windows} * std::size_t(ranks) * 8;
  }

 private:
  [[nodiscard]] constexpr std::size_t words() const {
    return std::size_t(ranks) * protocol_count * max_channels;
  }
};

/// By windows a rank combines a part of an all-reduce of `bytes`, this long or shorter: a multiple
/// of 16 bytes, so that the parts are aligned as the buffers are.
[[nodiscard]] constexpr std::uint64_t window_portion_bytes(std::uint64_t bytes, int ranks) {
  const auto parts = static_cast<std::uint64_t>(ranks);
  return ((bytes + parts - 1) / parts + 15) / 16 * 16;
}

/// One call. Every rank makes it with the same `block_bytes`, `from`, `to`, `share` and `channels`.
struct Call {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::uint64_t block_bytes = 0;  ///< that one rank sends to another
  std::uint64_t send_step = 0;    ///< distance of the blocks for different ranks; 0: one for all
  std::uint64_t recv_step = 0;    ///< distance of the blocks of different ranks
  /// Bytes of a channel in a round; by windows, of what it moves in all. A multiple of 16.
  std::uint64_t share = 0;
  /// Number of this call among those outside of graphs; 0 in a graph. Calls on several streams wait
  /// for each other's turns.
  std::uint64_t turn = 0;
  std::byte* staging[max_ranks] = {};         // NOLINT(modernize-avoid-c-arrays): for the GPU
  const std::uint32_t* abort_flag = nullptr;  ///< in host memory: not 0 ends every wait
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t from = -1;  ///< the only rank that sends; -1: all
  std::int32_t to = -1;    ///< the only rank that receives; -1: all
  /// The own block, which goes to all peers, also goes from `send` to `recv`.
  std::int32_t copies_own = 0;
  /// By windows: places of `send` and `recv`, where peers access them.
  std::uint64_t places[2] = {};  // NOLINT(modernize-avoid-c-arrays): for the GPU
};

}  // namespace tutti::device::direct
