#pragma once

#include "channel.hpp"

/// The protocol for few bytes: a thread stores packets into its peers' memory and waits for theirs
/// in its own. No fence, and no message that says that data is there.
namespace tutti::device::direct {

/// One channel's part of one round.
template <class Machine>
struct PacketRound {
  const Channel& channel;
  const Machine& machine;
  std::uint64_t round;
  std::uint64_t offset;  ///< of its first byte in each block
  std::uint64_t bytes;

  [[nodiscard]] TUTTI_ON_DEVICE const Call& call() const { return channel.call; }
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t left(std::uint64_t packet) const {
    return bytes - packet * data_in_packet;
  }
  /// This rank's data for `peer`.
  [[nodiscard]] TUTTI_ON_DEVICE std::uint64_t own(int peer, std::uint64_t packet) const {
    const auto block = static_cast<std::uint64_t>(peer) * call().send_step;
    return load_bytes(call().send + block + offset + packet * data_in_packet, left(packet));
  }
  TUTTI_ON_DEVICE void put(int block, std::uint64_t packet, std::uint64_t data) const {
    const auto begin = static_cast<std::uint64_t>(block) * call().recv_step;
    store_bytes(call().recv + begin + offset + packet * data_in_packet, data, left(packet));
  }
  TUTTI_ON_DEVICE void send(std::uint64_t packet) const {
    std::uint64_t data = call().send_step == 0 ? own(0, packet) : 0;
    for (int step = 1; step < call().size; ++step) {
      const int peer = channel.peer_after(step);
      if (!channel.sends_to(peer)) continue;
      if (call().send_step != 0) data = own(peer, packet);
      machine.store(channel.packets(peer, call().rank, round) + packet, Packet{data, round});
    }
  }
  /// Waits for the packet of `peer`. False: the call is aborted.
  [[nodiscard]] TUTTI_ON_DEVICE bool receive(int peer, std::uint64_t packet,
                                             std::uint64_t& data) const {
    const Packet* const from = channel.packets(call().rank, peer, round) + packet;
    for (std::uint32_t turn = 1;; ++turn) {
      const Packet got = machine.load(from);
      data = got.data;
      if (got.sequence == round) return true;
      if (channel.gives_up(machine, turn)) return false;
    }
  }
};

/// Receives without data: a barrier.
struct BarrierPackets {
  template <class Machine>
  TUTTI_ON_DEVICE static bool finish(const PacketRound<Machine>& round, std::uint64_t packet) {
    for (int peer = 0; peer < round.call().size; ++peer) {
      std::uint64_t ignored = 0;
      if (round.channel.receives_from(peer) && !round.receive(peer, packet, ignored)) return false;
    }
    return true;
  }
};

/// Puts every received block into its place.
struct MovePackets {
  template <class Machine>
  TUTTI_ON_DEVICE static bool finish(const PacketRound<Machine>& round, std::uint64_t packet) {
    const auto& call = round.call();
    if (call.copies_own != 0) round.put(call.rank, packet, round.own(call.rank, packet));
    for (int step = 1; step < call.size; ++step) {
      const int peer = round.channel.peer_after(step);
      if (!round.channel.receives_from(peer)) continue;
      std::uint64_t data = 0;
      if (!round.receive(peer, packet, data)) return false;
      round.put(peer, packet, data);
    }
    return true;
  }
};

/// Combines the contributions in the order of the ranks, so that all ranks get the same bits.
template <class Arithmetic>
struct ReducePackets {
  template <class Machine>
  TUTTI_ON_DEVICE static bool finish(const PacketRound<Machine>& round, std::uint64_t packet) {
    const auto& call = round.call();
    Arithmetic result{};
    for (int peer = 0; peer < call.size; ++peer) {
      std::uint64_t data = 0;
      if (peer == call.rank) {
        data = round.own(call.rank, packet);
      } else if (!round.receive(peer, packet, data)) {
        return false;
      }
      result.add(data, peer == 0);
    }
    round.put(0, packet, result.value(call.size));
    return true;
  }
};

/// All rounds of one channel.
template <class Finish, class Machine>
TUTTI_ON_DEVICE void exchange_packets(const Call& call, const Machine& machine) {
  const Channel channel{call, Protocol::packets, machine.channel()};
  const Packet before = machine.load(channel.progress());
  const auto first = call.share * static_cast<std::uint64_t>(machine.channel());
  const auto step = call.share * static_cast<std::uint64_t>(machine.channels());
  PacketRound<Machine> round{channel, machine, before.sequence, 0, 0};
  for (round.offset = first; round.offset < call.block_bytes; round.offset += step) {
    const auto left = call.block_bytes - round.offset;
    round.bytes = left < call.share ? left : call.share;
    ++round.round;
    const auto packets = (round.bytes + data_in_packet - 1) / data_in_packet;
    bool goes_on = true;
    if (channel.sends()) {
      goes_on = channel.wait_for_credits(machine, round.round);
      for (auto packet = machine.thread(); goes_on && packet < packets;
           packet += machine.threads()) {
        round.send(packet);
      }
    }
    for (auto packet = machine.thread(); goes_on && packet < packets; packet += machine.threads()) {
      goes_on = Finish::finish(round, packet);
    }
    // All threads have read their packets, or the call is aborted.
    if (!machine.synchronize(goes_on)) break;
    channel.acknowledge(machine, round.round, static_cast<int>(machine.thread()),
                        static_cast<int>(machine.threads()));
  }
  // Also after an abort, since other streams may wait for the turn.
  if (machine.thread() == 0) channel.end(machine, before, round.round);
}

}  // namespace tutti::device::direct
