// The kernels of the direct path by themselves, run by the CPU.
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "fake_gpu/fake_kernels.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using direct::Call;
using direct::Channel;
using direct::Layout;
using direct::Protocol;
using fake_gpu::Block;
using fake_gpu::Processor;

constexpr int ranks = 3;

/// Rank 0 broadcasts on one channel to peers that never read, until the call is aborted.
struct AbortedBroadcast {
  explicit AbortedBroadcast(std::uint64_t share)
      : send(8 * share, std::byte{7}),
        staging(ranks, std::vector<Unit>(Layout{ranks}.bytes() / 16 + 1)) {
    call.send = send.data();
    call.recv = send.data();
    call.block_bytes = send.size();
    call.share = share;
    call.turn = 5;
    call.abort_flag = &flag;
    call.size = ranks;
    call.from = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      call.staging[rank] = reinterpret_cast<std::byte*>(staging[rank].data());
    }
  }

  /// Aborts once `is_stuck`.
  template <class Kernel, class IsStuck>
  void run(Kernel kernel, IsStuck is_stuck) {
    Block block;
    std::thread first([&] { kernel(call, Processor{0, 1, 0, &block}); });
    std::thread second([&] { kernel(call, Processor{0, 1, 1, &block}); });
    while (!is_stuck()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for what should not happen
    __atomic_store_n(&flag, 1U, __ATOMIC_RELAXED);
    first.join();
    second.join();
  }

  using Unit = direct::Unit;
  std::vector<std::byte> send;
  std::vector<std::vector<Unit>> staging;
  std::uint32_t flag = 0;
  Call call;
};

}  // namespace

TEST_CASE("an aborted call by chunks announces only what it has stored, and ends its turn") {
  AbortedBroadcast broadcast(direct::chunk_slot_bytes);
  const Channel channel{broadcast.call, Protocol::chunks, 0};
  broadcast.run(direct::exchange_chunks<direct::MoveChunks, Processor>, [&] {
    return __atomic_load_n(channel.ready(2, 0), __ATOMIC_ACQUIRE) >= direct::slots &&
           __atomic_load_n(channel.ready(1, 0), __ATOMIC_ACQUIRE) >= direct::slots;
  });
  for (const int peer : {1, 2}) CHECK(*channel.ready(peer, 0) == direct::slots);
  CHECK(channel.progress()->data == 5);
  CHECK(*channel.waits() > 0);
}

TEST_CASE("an aborted call by packets ends its turn") {
  AbortedBroadcast broadcast(direct::packet_slot_bytes);
  const Channel channel{broadcast.call, Protocol::packets, 0};
  broadcast.run(direct::exchange_packets<direct::MovePackets, Processor>, [&] {
    const auto* const last = channel.packets(2, 0, direct::slots);
    return __atomic_load_n(&last->sequence, __ATOMIC_ACQUIRE) == direct::slots;
  });
  CHECK(channel.packets(1, 0, 1)->sequence == 1);
  CHECK(channel.progress()->data == 5);
  CHECK(*channel.waits() > 0);
}

TEST_CASE("an aborted call in windows stores nothing into a buffer before its place is known") {
  AbortedBroadcast broadcast(std::uint64_t{1} << 20);
  broadcast.call.share = broadcast.call.block_bytes;
  const Channel channel{broadcast.call, Protocol::windows, 0};
  std::vector<std::byte> buffer(broadcast.send.size());
  auto* const window = const_cast<std::uint64_t*>(channel.window(0, 1));
  *window = reinterpret_cast<std::uintptr_t>(buffer.data());
  // Rank 1 is there, rank 2 is not.
  for (const int which : {direct::send_buffer, direct::recv_buffer}) {
    *channel.place(0, 1, which) = {0, 1};
  }
  broadcast.run(direct::exchange_windows<direct::MoveWindows, Processor>,
                [&] { return __atomic_load_n(channel.waits(), __ATOMIC_RELAXED) > 0; });
  CHECK(std::all_of(buffer.begin(), buffer.end(), [](auto byte) { return byte == std::byte{}; }));
  CHECK(*channel.ready(1, 0) == 0);
  CHECK(channel.progress()->data == 5);
}

TEST_CASE("a call that needs no waits has its result although it is aborted") {
  AbortedBroadcast broadcast(direct::packet_slot_bytes);
  broadcast.call.block_bytes = direct::slots * direct::packet_slot_bytes;
  const Channel channel{broadcast.call, Protocol::packets, 0};
  broadcast.flag = 1;
  broadcast.run(direct::exchange_packets<direct::MovePackets, Processor>, [] { return true; });
  CHECK(channel.progress()->data == 5);
  CHECK(channel.progress()->sequence == direct::slots);
  CHECK(*channel.waits() == 0);
}

}  // namespace tutti::device::test
