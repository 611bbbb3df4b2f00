#pragma once

#include "call.hpp"

#if defined(__CUDACC__)
#define TUTTI_ON_DEVICE __device__ __forceinline__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_ON_DEVICE inline
#define TUTTI_UNROLL
#endif

/// What all protocols share. `Machine` is the GPU or, in tests, a CPU. Accesses to staging memory
/// through it are atomic and relaxed unless said otherwise; packets are accessed as a whole.
/// docs/decisions/0030 says why that is enough.
namespace tutti::device::direct {

/// Up to 8 bytes; missing ones are zero.
TUTTI_ON_DEVICE std::uint64_t load_bytes(const std::byte* from, std::uint64_t count) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (count >= 8 && address % 8 == 0) return *reinterpret_cast<const std::uint64_t*>(from);
  if (count == 4 && address % 4 == 0) return *reinterpret_cast<const std::uint32_t*>(from);
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < count && i < 8; ++i) {
    value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  return value;
}

TUTTI_ON_DEVICE void store_bytes(std::byte* to, std::uint64_t value, std::uint64_t count) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (count >= 8 && address % 8 == 0) {
    *reinterpret_cast<std::uint64_t*>(to) = value;
  } else if (count == 4 && address % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(to) = static_cast<std::uint32_t>(value);
  } else {
    for (std::uint64_t i = 0; i < count && i < 8; ++i) {
      to[i] = static_cast<std::byte>(value >> (8 * i));
    }
  }
}

/// 16 bytes, which a GPU accesses at once.
struct alignas(16) Unit {
  std::uint64_t low;
  std::uint64_t high;
};

TUTTI_ON_DEVICE Unit load_unit(const std::byte* from, std::uint64_t count) {
  if (count >= 16 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    return *reinterpret_cast<const Unit*>(from);
  }
  return {load_bytes(from, count), count > 8 ? load_bytes(from + 8, count - 8) : 0};
}

TUTTI_ON_DEVICE void store_unit(std::byte* to, const Unit& unit, std::uint64_t count) {
  if (count >= 16 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    *reinterpret_cast<Unit*>(to) = unit;
    return;
  }
  store_bytes(to, unit.low, count);
  if (count > 8) store_bytes(to + 8, unit.high, count - 8);
}

/// One channel of a call: its place in everybody's staging memory.
struct Channel {
  const Call& call;
  Protocol protocol;
  int index;

  [[nodiscard]] TUTTI_ON_DEVICE Packet* packets(int owner, int sender, std::uint64_t round) const {
    return reinterpret_cast<Packet*>(call.staging[owner] + layout().packets()) +
           slot(sender, round) * packets_in_slot;
  }
  [[nodiscard]] TUTTI_ON_DEVICE std::byte* chunk(int owner, int sender, std::uint64_t round) const {
    return call.staging[owner] + layout().chunks() + slot(sender, round) * chunk_slot_bytes;
  }
  /// The latest round of `owner` that `reader` has read all of.
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t* credit(int owner, int reader) const {
    return words(owner, layout().credits()) + word(reader);
  }
  /// The latest round whose chunk `sender` has stored.
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t* ready(int owner, int sender) const {
    return words(owner, layout().ready()) + word(sender);
  }
  /// This rank's latest turn (the data) and round.
  [[nodiscard]] TUTTI_ON_DEVICE Packet* progress() const {
    const auto before = static_cast<std::size_t>(protocol) * max_channels;
    return reinterpret_cast<Packet*>(call.staging[call.rank] + layout().progress()) + before +
           static_cast<std::size_t>(index);
  }

  /// Where `rank` told `owner` that its buffer is.
  [[nodiscard]] TUTTI_ON_DEVICE Packet* place(int owner, int rank, int buffer) const {
    const auto before = (static_cast<std::ptrdiff_t>(rank) * max_channels + index) * 2;
    return reinterpret_cast<Packet*>(call.staging[owner] + layout().places()) + before + buffer;
  }
  /// The address of a rank's window, as this rank sees it.
  [[nodiscard]] TUTTI_ON_DEVICE const std::uint64_t* window(std::uint64_t number, int rank) const {
    return words(call.rank, layout().windows()) + number * static_cast<std::uint64_t>(call.size) +
           rank;
  }

  [[nodiscard]] TUTTI_ON_DEVICE bool sends() const {
    return (call.from < 0 || call.from == call.rank) && call.to != call.rank;
  }
  [[nodiscard]] TUTTI_ON_DEVICE bool receives() const {
    return (call.to < 0 || call.to == call.rank) && call.from != call.rank;
  }
  [[nodiscard]] TUTTI_ON_DEVICE bool sends_to(int peer) const {
    return peer != call.rank && sends() && (call.to < 0 || call.to == peer);
  }
  [[nodiscard]] TUTTI_ON_DEVICE bool receives_from(int peer) const {
    return peer != call.rank && receives() && (call.from < 0 || call.from == peer);
  }
  /// The `step`th peer after this rank.
  [[nodiscard]] TUTTI_ON_DEVICE int peer_after(int step) const {
    return (call.rank + step) % call.size;
  }

  /// Waits until the receivers have read what the slot of `round` held. False: the call is aborted.
  template <class Machine>
  [[nodiscard]] TUTTI_ON_DEVICE bool wait_for_credits(const Machine& machine,
                                                      std::uint64_t round) const {
    if (round <= slots) return true;
    for (int peer = 0; peer < call.size; ++peer) {
      if (!sends_to(peer)) continue;
      const auto* const read = credit(call.rank, peer);
      for (std::uint32_t turn = 1; machine.load(read) + slots < round; ++turn) {
        if (gives_up(machine, turn)) return false;
      }
    }
    return true;
  }
  /// Tells every peer that this rank has read all of the round, or had nothing to read.
  template <class Machine>
  TUTTI_ON_DEVICE void acknowledge(const Machine& machine, std::uint64_t round, int first,
                                   int step) const {
    for (int peer = first; peer < call.size; peer += step) {
      if (peer != call.rank) machine.store(credit(peer, call.rank), round);
    }
  }
  /// Whether a wait, which has looked `turn` times, ends because the call is aborted. The host sees
  /// that it goes on.
  template <class Machine>
  [[nodiscard]] TUTTI_ON_DEVICE bool gives_up(const Machine& machine, std::uint32_t turn) const {
    if (!machine.is_time_to_look_up(turn)) return false;
    machine.store(waits(), std::uint64_t{turn});
    return machine.load(call.abort_flag) != 0;
  }
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t* waits() const {
    return words(call.rank, layout().waits());
  }
  template <class Machine>
  TUTTI_ON_DEVICE void end(const Machine& machine, const Packet& before,
                           std::uint64_t round) const {
    // Another stream may start on the turn, and read what all threads have stored before it. A
    // graph's call has none.
    if (call.turn != 0) machine.fence();
    machine.store(progress(), Packet{call.turn != 0 ? call.turn : before.data, round});
  }

 private:
  [[nodiscard]] TUTTI_ON_DEVICE Layout layout() const { return {call.size}; }
  [[nodiscard]] TUTTI_ON_DEVICE std::size_t slot(int sender, std::uint64_t round) const {
    return (static_cast<std::size_t>(sender) * max_channels + static_cast<std::size_t>(index)) *
               slots +
           static_cast<std::size_t>(round % slots);
  }
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t* words(int owner, std::size_t offset) const {
    return reinterpret_cast<std::uint64_t*>(call.staging[owner] + offset);
  }
  [[nodiscard]] TUTTI_ON_DEVICE int word(int rank) const {
    return (static_cast<int>(protocol) * call.size + rank) * max_channels + index;
  }
};

}  // namespace tutti::device::direct
