#pragma once

#include "channel.hpp"

/// The protocol for buffers in windows: each rank tells its peers where its buffers are, which also
/// says that they may be accessed; then the peers access them in place, and at last they say that
/// they have. All that travels is data, once.
namespace tutti::device::direct {

/// Accesses of one thread that are under way together, where data is moved, and where it is
/// combined, which takes more registers.
inline constexpr int units_moved_at_once = 8;
inline constexpr int units_combined_at_once = 4;

/// One channel's part of a call. A rank that sends to another accesses that one's buffers.
template <class Machine>
struct WindowCall {
  const Channel& channel;
  const Machine& machine;
  std::uint64_t round;

  [[nodiscard]] TUTTI_ON_DEVICE const Call& call() const { return channel.call; }

  /// `action(peer)` for this thread's part of the peers, until one returns false.
  template <class Action>
  [[nodiscard]] TUTTI_ON_DEVICE bool for_own_peers(Action action) const {
    for (auto peer = machine.thread(); peer < static_cast<std::uint64_t>(call().size);
         peer += machine.threads()) {
      if (!action(static_cast<int>(peer))) return false;
    }
    return true;
  }
  /// Tells the ranks that will access this rank's buffers where they are.
  TUTTI_ON_DEVICE void tell_places() const {
    static_cast<void>(for_own_peers([&](int peer) {
      if (!channel.receives_from(peer)) return true;
      // Behind what earlier work on the stream has stored.
      machine.fence_system();
      for (const int buffer : {send_buffer, recv_buffer}) {
        machine.store(channel.place(peer, call().rank, buffer),
                      Packet{call().places[buffer], round});
      }
      return true;
    }));
  }
  /// Waits until the buffers that this rank accesses may be. False: the call is aborted.
  [[nodiscard]] TUTTI_ON_DEVICE bool await_places() const {
    return for_own_peers([&](int peer) {
      if (!channel.sends_to(peer)) return true;
      for (const int buffer : {send_buffer, recv_buffer}) {
        const auto* const told = channel.place(call().rank, peer, buffer);
        for (std::uint32_t turn = 1; machine.load(told).sequence != round; ++turn) {
          if (channel.gives_up(machine, turn)) return false;
        }
      }
      machine.fence_system();
      return true;
    });
  }
  /// A peer's buffer, once its place is known.
  [[nodiscard]] TUTTI_ON_DEVICE std::byte* buffer_of(int peer, int buffer) const {
    const auto place = Place::of_word(machine.load(channel.place(call().rank, peer, buffer)).data);
    return machine.reach(machine.load(channel.window(place.window, peer)) + place.offset);
  }
  /// After all threads' accesses: tells the peers that theirs have ended.
  TUTTI_ON_DEVICE void tell_end() const {
    static_cast<void>(for_own_peers([&](int peer) {
      if (channel.sends_to(peer)) machine.store_release(channel.ready(peer, call().rank), round);
      return true;
    }));
  }
  /// Waits for the peers that access this rank's buffers. False: the call is aborted.
  [[nodiscard]] TUTTI_ON_DEVICE bool await_end() const {
    return for_own_peers([&](int peer) {
      if (!channel.receives_from(peer)) return true;
      const auto* const ready = channel.ready(call().rank, peer);
      for (std::uint32_t turn = 1; machine.load_acquire(ready) < round; ++turn) {
        if (channel.gives_up(machine, turn)) return false;
      }
      return true;
    });
  }

  /// Calls `action(unit)` for this thread's first unit of each batch of `bytes`. The thread's
  /// further units of the batch, `at_once` in all, follow at a distance of threads().
  template <int at_once, class Action>
  TUTTI_ON_DEVICE void for_batches(std::uint64_t bytes, Action action) const {
    const auto units = (bytes + sizeof(Unit) - 1) / sizeof(Unit);
    for (auto unit = machine.thread(); unit < units; unit += machine.threads() * at_once) {
      action(unit);
    }
  }
  /// Loads a batch that begins at `unit`; what is beyond `bytes` stays as it is.
  template <int at_once>
  TUTTI_ON_DEVICE void load(Unit (&units)[at_once],  // NOLINT(modernize-avoid-c-arrays)
                            const std::byte* from, std::uint64_t unit, std::uint64_t bytes) const {
    TUTTI_UNROLL
    for (int slot = 0; slot < at_once; ++slot) {
      const auto at = (unit + static_cast<std::uint64_t>(slot) * machine.threads()) * sizeof(Unit);
      if (at < bytes) units[slot] = load_unit(from + at, bytes - at);
    }
  }
  template <int at_once>
  TUTTI_ON_DEVICE void store(const Unit (&units)[at_once],  // NOLINT(modernize-avoid-c-arrays)
                             std::byte* to, std::uint64_t unit, std::uint64_t bytes) const {
    TUTTI_UNROLL
    for (int slot = 0; slot < at_once; ++slot) {
      const auto at = (unit + static_cast<std::uint64_t>(slot) * machine.threads()) * sizeof(Unit);
      if (at < bytes) store_unit(to + at, units[slot], bytes - at);
    }
  }
  /// The channel's part of `total` bytes: where it begins, and its length.
  struct Part {
    std::uint64_t begin;
    std::uint64_t bytes;
  };
  [[nodiscard]] TUTTI_ON_DEVICE Part part_of(std::uint64_t total) const {
    const auto begin = call().share * static_cast<std::uint64_t>(machine.channel());
    if (begin >= total) return {0, 0};
    return {begin, total - begin < call().share ? total - begin : call().share};
  }
};

/// Stores the own block into the receivers' buffers.
struct MoveWindows {
  template <class Machine>
  TUTTI_ON_DEVICE static void run(const WindowCall<Machine>& window) {
    const auto& call = window.call();
    if (!window.channel.sends()) return;
    const auto part = window.part_of(call.block_bytes);
    const auto at = static_cast<std::uint64_t>(call.rank) * call.recv_step + part.begin;
    std::byte* theirs[max_ranks];  // NOLINT(modernize-avoid-c-arrays): for the GPU
    for (int peer = 0; peer < call.size; ++peer) {
      if (window.channel.sends_to(peer)) theirs[peer] = window.buffer_of(peer, recv_buffer) + at;
    }
    Unit units[units_moved_at_once];  // NOLINT(modernize-avoid-c-arrays): for the GPU
    window.template for_batches<units_moved_at_once>(part.bytes, [&](std::uint64_t unit) {
      window.load(units, call.send + part.begin, unit, part.bytes);
      if (call.copies_own != 0) window.store(units, call.recv + at, unit, part.bytes);
      for (int step = 1; step < call.size; ++step) {
        const int peer = window.channel.peer_after(step);
        if (window.channel.sends_to(peer)) window.store(units, theirs[peer], unit, part.bytes);
      }
    });
  }
};

/// Combines the contributions to this rank's part of the result in the order of the ranks: reads
/// those of the peers in place, and, if all ranks get the result, stores it into all of them.
template <class Arithmetic>
struct ReduceWindows {
  template <class Machine>
  TUTTI_ON_DEVICE static void run(const WindowCall<Machine>& window) {
    const auto& call = window.call();
    const bool to_all = call.send_step == 0;
    // What this rank combines, from where it begins in a contribution.
    const auto block = static_cast<std::uint64_t>(call.rank) * call.send_step;
    const auto own = to_all ? portion_of(call) : Portion{block, call.block_bytes};
    const auto part = window.part_of(own.bytes);
    const std::byte* from[max_ranks];  // NOLINT(modernize-avoid-c-arrays): for the GPU
    std::byte* to[max_ranks];          // NOLINT(modernize-avoid-c-arrays): for the GPU
    for (int peer = 0; peer < call.size; ++peer) {
      const bool is_own = peer == call.rank;
      from[peer] =
          (is_own ? call.send : window.buffer_of(peer, send_buffer)) + own.begin + part.begin;
      if (!to_all) continue;
      to[peer] =
          (is_own ? call.recv : window.buffer_of(peer, recv_buffer)) + own.begin + part.begin;
    }
    if (!to_all) to[call.rank] = call.recv + part.begin;
    window.template for_batches<units_combined_at_once>(part.bytes, [&](std::uint64_t unit) {
      // NOLINTBEGIN(modernize-avoid-c-arrays): for the GPU
      Unit units[units_combined_at_once] = {};
      Arithmetic low[units_combined_at_once] = {};
      Arithmetic high[units_combined_at_once] = {};
      // NOLINTEND(modernize-avoid-c-arrays)
      for (int peer = 0; peer < call.size; ++peer) {
        window.load(units, from[peer], unit, part.bytes);
        TUTTI_UNROLL
        for (int slot = 0; slot < units_combined_at_once; ++slot) {
          low[slot].add(units[slot].low, peer == 0);
          high[slot].add(units[slot].high, peer == 0);
        }
      }
      TUTTI_UNROLL
      for (int slot = 0; slot < units_combined_at_once; ++slot) {
        units[slot] = {low[slot].value(call.size), high[slot].value(call.size)};
      }
      if (!to_all) return window.store(units, to[call.rank], unit, part.bytes);
      for (int step = 0; step < call.size; ++step) {
        window.store(units, to[window.channel.peer_after(step)], unit, part.bytes);
      }
    });
  }

  struct Portion {
    std::uint64_t begin;
    std::uint64_t bytes;
  };
  [[nodiscard]] TUTTI_ON_DEVICE static Portion portion_of(const Call& call) {
    const auto each = window_portion_bytes(call.block_bytes, call.size);
    const auto begin = each * static_cast<std::uint64_t>(call.rank);
    if (begin >= call.block_bytes) return {0, 0};
    const auto left = call.block_bytes - begin;
    return {begin, left < each ? left : each};
  }
};

/// A call on one channel.
template <class Action, class Machine>
TUTTI_ON_DEVICE void exchange_windows(const Call& call, const Machine& machine) {
  const Channel channel{call, Protocol::windows, machine.channel()};
  const Packet before = machine.load(channel.progress());
  const WindowCall<Machine> window{channel, machine, before.sequence + 1};
  window.tell_places();
  if (machine.synchronize(window.await_places())) {
    Action::run(window);
    static_cast<void>(machine.synchronize(true));
    window.tell_end();
    static_cast<void>(machine.synchronize(window.await_end()));
  }
  // Also after an abort, since other streams may wait for the turn.
  if (machine.thread() == 0) channel.end(machine, before, window.round);
}

}  // namespace tutti::device::direct
