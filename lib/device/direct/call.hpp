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

/// Two sets of channels.
enum class Protocol : int {
  packets = 0,  ///< few bytes: half of what travels is sequence numbers
  chunks = 1,   ///< many: all that travels is data, but each chunk pays for a fence
};

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
    return progress() + std::size_t{2} * max_channels * sizeof(Packet);
  }
  /// A word: changes every few milliseconds while a kernel of this rank waits for another rank.
  [[nodiscard]] constexpr std::size_t waits() const { return closed() + std::size_t(ranks) * 8; }
  [[nodiscard]] constexpr std::size_t bytes() const { return waits() + 8; }

 private:
  [[nodiscard]] constexpr std::size_t words() const {
    return std::size_t(ranks) * 2 * max_channels;
  }
};

/// One call. Every rank makes it with the same `block_bytes`, `from`, `to`, `share` and `channels`.
struct Call {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::uint64_t block_bytes = 0;  ///< that one rank sends to another
  std::uint64_t send_step = 0;    ///< distance of the blocks for different ranks; 0: one for all
  std::uint64_t recv_step = 0;    ///< distance of the blocks of different ranks
  std::uint64_t share = 0;        ///< bytes of a channel in a round; a multiple of 16
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
};

}  // namespace tutti::device::direct
