#pragma once

#include "channel.hpp"

/// The protocol for many bytes: a thread block stores a chunk into its peers' memory, and then,
/// after a fence, a word that says that it is there. Its last warp publishes, so that the others
/// need not wait for the fence.
namespace tutti::device::direct {

/// Chunks that a rank sends before it waits for the first of its peers.
inline constexpr std::uint64_t chunks_ahead = 2;
/// Accesses of one thread that are under way together.
inline constexpr int units_at_once = 4;

/// One channel's chunk of one round.
template <class Machine>
struct Chunk {
  const Channel& channel;
  const Machine& machine;
  std::uint64_t round;
  std::uint64_t offset;  ///< of its first byte in each block
  std::uint64_t bytes;

  [[nodiscard]] TUTTI_ON_DEVICE const Call& call() const { return channel.call; }
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t left(std::uint64_t unit) const {
    return bytes - unit * sizeof(Unit);
  }
  [[nodiscard]] TUTTI_ON_DEVICE Unit own(int peer, std::uint64_t unit) const {
    const auto block = static_cast<std::uint64_t>(peer) * call().send_step;
    return load_unit(call().send + block + offset + unit * sizeof(Unit), left(unit));
  }
  [[nodiscard]] TUTTI_ON_DEVICE Unit received(int peer, std::uint64_t unit) const {
    return reinterpret_cast<const Unit*>(channel.chunk(call().rank, peer, round))[unit];
  }
  TUTTI_ON_DEVICE void put(int block, std::uint64_t unit, const Unit& data) const {
    const auto begin = static_cast<std::uint64_t>(block) * call().recv_step;
    store_unit(call().recv + begin + offset + unit * sizeof(Unit), data, left(unit));
  }

  /// Calls `load(unit, slot)` for several units, then `store(unit, slot)` for them.
  template <class Load, class Store>
  TUTTI_ON_DEVICE void for_units(Load load, Store store) const {
    const auto units = (bytes + sizeof(Unit) - 1) / sizeof(Unit);
    const auto threads = machine.workers();
    for (auto begin = machine.thread(); begin < units; begin += threads * units_at_once) {
      TUTTI_UNROLL
      for (int slot = 0; slot < units_at_once; ++slot) {
        const auto unit = begin + static_cast<std::uint64_t>(slot) * threads;
        if (unit < units) load(unit, slot);
      }
      TUTTI_UNROLL
      for (int slot = 0; slot < units_at_once; ++slot) {
        const auto unit = begin + static_cast<std::uint64_t>(slot) * threads;
        if (unit < units) store(unit, slot);
      }
    }
  }

  /// To all peers, and to this rank's own place: what is copied there is loaded for the first peer.
  TUTTI_ON_DEVICE void send() const {
    Unit units[units_at_once];  // NOLINT(modernize-avoid-c-arrays): for the GPU
    bool copies_own = call().copies_own != 0;
    for (int step = 1; step < call().size; ++step) {
      const int peer = channel.peer_after(step);
      if (!channel.sends_to(peer)) continue;
      auto* const to = reinterpret_cast<Unit*>(channel.chunk(peer, call().rank, round));
      for_units([&](std::uint64_t unit, int slot) { units[slot] = own(peer, unit); },
                [&](std::uint64_t unit, int slot) {
                  to[unit] = units[slot];
                  if (copies_own) put(call().rank, unit, units[slot]);
                });
      copies_own = false;
    }
  }
  /// Waits for all peers' chunks. False: the call is aborted.
  [[nodiscard]] TUTTI_ON_DEVICE bool wait() const {
    for (int peer = 0; peer < call().size; ++peer) {
      if (!channel.receives_from(peer)) continue;
      const auto* const ready = channel.ready(call().rank, peer);
      for (std::uint32_t turn = 1; machine.load_acquire(ready) < round; ++turn) {
        if (channel.gives_up(machine, turn)) return false;
      }
    }
    return true;
  }
  /// Tells the receivers that the chunk is there.
  TUTTI_ON_DEVICE void publish(int first, int step) const {
    for (int peer = first; peer < call().size; peer += step) {
      if (channel.sends_to(peer)) machine.store_release(channel.ready(peer, call().rank), round);
    }
  }
};

/// Puts every received block into its place.
struct MoveChunks {
  template <class Machine>
  TUTTI_ON_DEVICE static void finish(const Chunk<Machine>& chunk) {
    const auto& call = chunk.call();
    Unit units[units_at_once];  // NOLINT(modernize-avoid-c-arrays): for the GPU
    for (int step = 1; step < call.size; ++step) {
      const int peer = chunk.channel.peer_after(step);
      if (!chunk.channel.receives_from(peer)) continue;
      chunk.for_units(
          [&](std::uint64_t unit, int slot) { units[slot] = chunk.received(peer, unit); },
          [&](std::uint64_t unit, int slot) { chunk.put(peer, unit, units[slot]); });
    }
  }
};

/// Combines the contributions in the order of the ranks, so that all ranks get the same bits.
template <class Arithmetic>
struct ReduceChunks {
  template <class Machine>
  TUTTI_ON_DEVICE static void finish(const Chunk<Machine>& chunk) {
    const auto& call = chunk.call();
    Unit units[units_at_once];  // NOLINT(modernize-avoid-c-arrays): for the GPU
    chunk.for_units(
        [&](std::uint64_t unit, int slot) {
          Arithmetic low{};
          Arithmetic high{};
          for (int peer = 0; peer < call.size; ++peer) {
            const auto data =
                peer == call.rank ? chunk.own(peer, unit) : chunk.received(peer, unit);
            low.add(data.low, peer == 0);
            high.add(data.high, peer == 0);
          }
          units[slot] = {low.value(call.size), high.value(call.size)};
        },
        [&](std::uint64_t unit, int slot) { chunk.put(0, unit, units[slot]); });
  }
};

/// All chunks of one channel.
template <class Finish, class Machine>
TUTTI_ON_DEVICE void exchange_chunks(const Call& call, const Machine& machine) {
  const Channel channel{call, Protocol::chunks, machine.channel()};
  const Packet before = machine.load(channel.progress());
  const auto first = call.share * static_cast<std::uint64_t>(machine.channel());
  const auto step = call.share * static_cast<std::uint64_t>(machine.channels());
  const auto chunks = (call.block_bytes - first + step - 1) / step;
  const auto chunk_at = [&](std::uint64_t index) {
    const auto offset = first + index * step;
    const auto left = call.block_bytes - offset;
    return Chunk<Machine>{channel, machine, before.sequence + 1 + index, offset,
                          left < call.share ? left : call.share};
  };
  for (std::uint64_t index = 0; index < chunks + chunks_ahead; ++index) {
    bool goes_on = true;
    if (index < chunks && channel.sends()) {
      const auto chunk = chunk_at(index);
      if (machine.works()) {
        goes_on = channel.wait_for_credits(machine, chunk.round);
        if (goes_on) chunk.send();
      }
      // What was not stored is not published.
      if (!machine.synchronize(goes_on)) break;
      if (machine.publishes()) chunk.publish(machine.publisher(), machine.publishers());
    }
    if (index >= chunks_ahead) {
      const auto chunk = chunk_at(index - chunks_ahead);
      if (channel.receives()) {
        if (machine.works()) {
          goes_on = chunk.wait();
          if (goes_on) Finish::finish(chunk);
        }
        if (!machine.synchronize(goes_on)) break;
      }
      if (machine.publishes()) {
        channel.acknowledge(machine, chunk.round, machine.publisher(), machine.publishers());
      }
    }
  }
  // Also after an abort, since other streams may wait for the turn.
  if (machine.publishes() && machine.publisher() == 0) {
    channel.end(machine, before, before.sequence + chunks);
  }
}

}  // namespace tutti::device::direct
