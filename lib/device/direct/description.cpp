#include "description.hpp"

#include <algorithm>

#include "channel.hpp"

namespace tutti::device::direct {
namespace {

constexpr std::uint64_t max_threads = 512;
constexpr std::uint64_t warp = 32;
/// A further channel for each of these many bytes: packets are soon sent, so that few for each
/// thread are best, while a chunk has to be worth its fence.
constexpr std::uint64_t packet_bytes_for_channel = 2048;
constexpr std::uint64_t chunk_bytes_for_channel = std::uint64_t{16} << 10;

std::uint64_t divide_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit;
}

}  // namespace

Call describe(const CheckedCollective& call, int rank, int size) {
  const auto bytes = call.count * size_of(call.type);
  Call described{.send = static_cast<const std::byte*>(call.send),
                 .recv = static_cast<std::byte*>(call.recv),
                 .block_bytes = bytes,
                 .rank = rank,
                 .size = size};
  switch (call.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
      described.from = call.root;
      // NCCL's broadcast may have two buffers in the root, tutti's has one.
      described.copies_own =
          call.send != nullptr && call.send != call.recv && rank == call.root ? 1 : 0;
      if (described.copies_own == 0) described.send = described.recv;
      break;
    case Operation::all_gather:
      described.recv_step = bytes;
      described.copies_own = call.in_place ? 0 : 1;
      break;
    case Operation::reduce_scatter:
      described.send_step = bytes;
      break;
    default:  // all_reduce; a barrier has no buffers
      break;
  }
  return described;
}

Accessed accessed(const CheckedCollective& call, int size) {
  const auto bytes = call.count * size_of(call.type);
  const auto of_all = bytes * static_cast<std::size_t>(size);
  switch (call.operation) {
    case Operation::all_gather:
      return {.recv = call.recv, .recv_bytes = of_all};
    case Operation::reduce_scatter:
      return {.send = call.send, .send_bytes = of_all};
    case Operation::all_reduce:
      return {.send = call.send, .send_bytes = bytes, .recv = call.recv, .recv_bytes = bytes};
    default:  // broadcast and fan_out
      return {.recv = call.recv, .recv_bytes = bytes};
  }
}

LaunchShape launch_shape(Protocol protocol, Operation operation, const Call& call) {
  const bool by_packets = protocol == Protocol::packets;
  const bool in_windows = protocol == Protocol::windows;
  // What the channels divide among themselves.
  const auto moved = in_windows && operation == Operation::all_reduce
                         ? window_portion_bytes(call.block_bytes, call.size)
                         : call.block_bytes;
  const auto for_channel = by_packets ? packet_bytes_for_channel : chunk_bytes_for_channel;
  const auto channels = std::min<std::uint64_t>(divide_up(moved, for_channel), max_channels);
  auto share = divide_up(divide_up(moved, channels), 16) * 16;
  if (!in_windows) {
    share = std::min<std::uint64_t>(share, by_packets ? packet_slot_bytes : chunk_slot_bytes);
  }
  const auto accesses = divide_up(share, by_packets ? data_in_packet : sizeof(Unit));
  auto threads = std::min(divide_up(accesses, warp) * warp, max_threads);
  // One more warp publishes.
  if (protocol == Protocol::chunks) threads += warp;
  const auto used = std::min(divide_up(moved, share), channels);
  return {.share = share,
          .channels = static_cast<unsigned>(used),
          .threads = static_cast<unsigned>(threads)};
}

}  // namespace tutti::device::direct
