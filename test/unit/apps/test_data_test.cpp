#include "test_data.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "rank_lines.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::app {
namespace {

using Bytes = std::vector<std::byte>;

/// All ranks' buffers of one call, and a reference implementation of the operation by
/// docs/semantics.md, for moves of u8 and sums of u32.
struct World {
  explicit World(CallSpec spec) : ranks(spec.ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      spec.rank = rank;
      specs.push_back(spec);
      layouts.push_back(buffer_layout_of(spec));
      send.emplace_back(layouts.back().send_elements * size_of(spec.type));
      recv.emplace_back(layouts.back().recv_elements * size_of(spec.type));
      TestData(spec).fill(send.back(), recv.back());
    }
  }

  Bytes input(int rank) const {
    const auto& layout = layouts[index(rank)];
    const auto& from = layout.shared ? recv[index(rank)] : send[index(rank)];
    const auto size = size_of(specs[0].type);
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(layout.input_at * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(layout.input_elements * size)};
  }
  void put(int rank, std::size_t at_byte, const Bytes& bytes) {
    const auto& layout = layouts[index(rank)];
    auto* const to = recv[index(rank)].data() + layout.result_at * size_of(specs[0].type);
    std::copy(bytes.begin(), bytes.end(), to + at_byte);
  }
  CheckResult check(int rank) const {
    return TestData(specs[index(rank)]).check(send[index(rank)], recv[index(rank)]);
  }
  std::size_t block() const { return specs[0].count * size_of(specs[0].type); }

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  int ranks;
  std::vector<CallSpec> specs;
  std::vector<BufferLayout> layouts;
  std::vector<Bytes> send;
  std::vector<Bytes> recv;
};

Bytes block_of(const Bytes& bytes, int index, std::size_t length) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(length) * index;
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

Bytes summed(const std::vector<Bytes>& inputs) {
  Bytes total = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    for (std::size_t at = 0; at + 4 <= total.size(); at += 4) {
      std::uint32_t a = 0;
      std::uint32_t b = 0;
      std::memcpy(&a, &total[at], 4);
      std::memcpy(&b, &inputs[i][at], 4);
      a += b;
      std::memcpy(&total[at], &a, 4);
    }
  }
  return total;
}

void carry_out(World& world) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < world.ranks; ++rank) inputs.push_back(world.input(rank));
  const int root = world.specs[0].root;
  const auto block = world.block();
  for (int rank = 0; rank < world.ranks; ++rank) {
    switch (world.specs[0].operation) {
      case Operation::broadcast:
      case Operation::fan_out:
        world.put(rank, 0, inputs[World::index(root)]);
        break;
      case Operation::all_reduce:
        world.put(rank, 0, summed(inputs));
        break;
      case Operation::reduce:
        if (rank == root) world.put(rank, 0, summed(inputs));
        break;
      case Operation::reduce_scatter:
        world.put(rank, 0, block_of(summed(inputs), rank, block));
        break;
      case Operation::scatter:
        world.put(rank, 0, block_of(inputs[World::index(root)], rank, block));
        break;
      case Operation::gather:
        if (rank != root) break;
        [[fallthrough]];
      case Operation::all_gather:
        for (int from = 0; from < world.ranks; ++from) {
          world.put(rank, block * World::index(from), inputs[World::index(from)]);
        }
        break;
      case Operation::all_to_all:
        for (int from = 0; from < world.ranks; ++from) {
          world.put(rank, block * World::index(from),
                    block_of(inputs[World::index(from)], rank, block));
        }
        break;
      default:  // send_recv
        world.put(rank, 0, inputs[World::index((rank + world.ranks - 1) % world.ranks)]);
    }
  }
}

constexpr std::array operations{
    Operation::broadcast,  Operation::fan_out,        Operation::all_reduce, Operation::reduce,
    Operation::all_gather, Operation::reduce_scatter, Operation::gather,     Operation::scatter,
    Operation::all_to_all, Operation::send_recv};

/// Calls `action` with every operation, for small jobs, all roots, in-place and out-of-place.
template <class Action>
void for_each_spec(std::size_t count, Action action) {
  for (const auto operation : operations) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const bool in_place : {false, true}) {
        if (in_place && operation == Operation::send_recv) continue;
        for (const int root : {0, ranks - 1}) {
          const CallSpec spec{.operation = operation,
                              .type = Type::u32,
                              .root = root,
                              .in_place = in_place,
                              .count = count,
                              .ranks = ranks};
          INFO(name(operation) << ", " << ranks << " ranks, root " << root
                               << (in_place ? ", in place" : ""));
          action(spec);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("the result of the operation passes on every rank") {
  for (const std::size_t count : {0U, 1U, 17U, 70'000U}) {
    for_each_spec(count, [&](const CallSpec& spec) {
      World world(spec);
      carry_out(world);
      for (int rank = 0; rank < world.ranks; ++rank) {
        const auto wrong = world.check(rank);
        INFO("rank " << rank << ": " << wrong.first);
        CHECK(wrong.elements == 0);
      }
    });
  }
}

TEST_CASE("unwritten memory is detected") {
  for_each_spec(17, [&](const CallSpec& spec) {
    const World world(spec);
    for (int rank = 0; rank < world.ranks; ++rank) {
      const auto& layout = world.layouts[World::index(rank)];
      // A single rank, or one that has its result before the call, may be correct already.
      const bool right_before = world.ranks == 1 && layout.shared;
      const bool is_source =
          layout.shared && layout.has_input && layout.input_at == layout.result_at &&
          layout.input_elements == layout.result_elements &&
          (spec.operation == Operation::broadcast || spec.operation == Operation::fan_out);
      const bool own_block = spec.operation == Operation::scatter && layout.shared;
      if (!layout.has_result || right_before || is_source || own_block) continue;
      INFO("rank " << rank);
      CHECK(world.check(rank).elements > 0);
    }
  });
}

TEST_CASE("one wrong bit anywhere in a result is detected") {
  for_each_spec(17, [&](const CallSpec& spec) {
    World world(spec);
    carry_out(world);
    for (int rank = 0; rank < world.ranks; ++rank) {
      const auto& layout = world.layouts[World::index(rank)];
      for (std::size_t i = 0; i < layout.result_elements * 4; ++i) {
        auto& byte = world.recv[World::index(rank)][layout.result_at * 4 + i];
        byte ^= std::byte{0x10};
        REQUIRE(world.check(rank).elements == 1);
        byte ^= std::byte{0x10};
      }
    }
  });
}

TEST_CASE("an overwritten input is detected") {
  for_each_spec(17, [&](const CallSpec& spec) {
    World world(spec);
    carry_out(world);
    for (int rank = 0; rank < world.ranks; ++rank) {
      auto& send = world.send[World::index(rank)];
      if (send.empty()) continue;
      send[send.size() / 2] ^= std::byte{1};
      CHECK(world.check(rank).elements == 1);
      const TestData exchange(world.specs[World::index(rank)]);
      CHECK(exchange.check(send, world.recv[World::index(rank)], false).elements == 0);
    }
  });
}

TEST_CASE("in-place reduce does not change the other ranks' buffers") {
  World world({.operation = Operation::reduce,
               .type = Type::u32,
               .in_place = true,
               .count = 8,
               .ranks = 3});
  carry_out(world);
  CHECK(world.check(1).elements == 0);
  world.recv[1][0] ^= std::byte{1};
  CHECK(world.check(1).elements == 1);
}

TEST_CASE("sizes are rounded up to whole elements and blocks") {
  const auto bytes = [](Operation operation, Type type, std::size_t wanted) {
    CallSpec spec{.operation = operation, .type = type, .ranks = 3};
    spec.count = count_for(spec, wanted);
    return bytes_of(spec);
  };
  CHECK(bytes(Operation::broadcast, Type::f64, 0) == 0);
  CHECK(bytes(Operation::broadcast, Type::f64, 1) == 8);
  CHECK(bytes(Operation::broadcast, Type::f64, 16) == 16);
  CHECK(bytes(Operation::all_reduce, Type::f16, 5) == 6);
  CHECK(bytes(Operation::all_gather, Type::f32, 6) == 8);
  CHECK(bytes(Operation::reduce_scatter, Type::f32, 6) == 8);
  CHECK(bytes(Operation::scatter, Type::u8, 7) == 7);
  CHECK(bytes(Operation::send_recv, Type::u8, 7) == 7);
  CHECK(bytes(Operation::all_to_all, Type::u8, 7) == 9);
  CHECK(bytes(Operation::all_to_all, Type::f32, 13) == 24);
  CHECK_THROWS_AS(bytes(Operation::all_gather, Type::f32, std::size_t{1} << 62), Error);
}

TEST_CASE("layouts match the operations") {
  const auto layout = [](Operation operation, bool in_place, int rank) {
    return buffer_layout_of({.operation = operation,
                             .root = 1,
                             .in_place = in_place,
                             .count = 10,
                             .rank = rank,
                             .ranks = 4});
  };
  const auto gather_root = layout(Operation::gather, true, 1);
  CHECK(gather_root.shared);
  CHECK(gather_root.recv_elements == 40);
  CHECK(gather_root.input_at == 10);
  CHECK(gather_root.result_at == 0);
  const auto gather_other = layout(Operation::gather, true, 2);
  CHECK_FALSE(gather_other.shared);
  CHECK(gather_other.send_elements == 10);
  CHECK(gather_other.recv_elements == 0);
  CHECK_FALSE(gather_other.has_result);
  const auto scattered = layout(Operation::reduce_scatter, true, 3);
  CHECK(scattered.recv_elements == 40);
  CHECK(scattered.input_elements == 40);
  CHECK(scattered.result_at == 30);
  CHECK(scattered.result_elements == 10);
  const auto barrier = layout(Operation::barrier, false, 0);
  CHECK(barrier.recv_elements == 0);
  CHECK_FALSE(barrier.has_result);
}

TEST_CASE("each rank reports what it did") {
  const auto said = [](Operation operation, int rank, CheckResult wrong = {}) {
    CallSpec spec{
        .operation = operation, .type = Type::f32, .count = 1024, .rank = rank, .ranks = 4};
    if (operation == Operation::all_to_all) spec.count /= 4;
    return rank_lines_of(spec, wrong);
  };
  CHECK(said(Operation::fan_out, 0) ==
        "sent 4 KiB to rank 1\nsent 4 KiB to rank 2\nsent 4 KiB to rank 3");
  CHECK(said(Operation::fan_out, 2) == "received 4 KiB from rank 0, verified");
  CHECK(said(Operation::broadcast, 0) == "broadcast 4 KiB to all ranks");
  CHECK(said(Operation::broadcast, 3) == "received 4 KiB from rank 0, verified");
  CHECK(said(Operation::all_reduce, 3) == "reduced 4 KiB over 4 ranks by sum, verified");
  CHECK(said(Operation::reduce, 0) == "reduced 4 KiB over 4 ranks by sum, verified");
  CHECK(said(Operation::reduce, 1) == "sent 4 KiB to rank 0");
  CHECK(said(Operation::all_gather, 1) == "gathered 4 KiB from each of 4 ranks, verified");
  CHECK(said(Operation::gather, 0) == "gathered 4 KiB from each of 4 ranks, verified");
  CHECK(said(Operation::gather, 3) == "sent 4 KiB to rank 0");
  CHECK(said(Operation::scatter, 0) == "scattered 4 KiB to each of 4 ranks, verified");
  CHECK(said(Operation::scatter, 1) == "received 4 KiB from rank 0, verified");
  CHECK(said(Operation::reduce_scatter, 1) ==
        "received its 4 KiB of the result that 4 ranks reduced by sum, verified");
  CHECK(said(Operation::all_to_all, 1) == "exchanged 4 KiB with 4 ranks, a block each, verified");
  CHECK(said(Operation::send_recv, 0) ==
        "sent 4 KiB to rank 1, received 4 KiB from rank 3, verified");
  CHECK(said(Operation::barrier, 0) == "passed");
  CHECK(said(Operation::broadcast, 1, {.elements = 2, .first = "element 5 is 1, expected 2"}) ==
        "received 4 KiB from rank 0, WRONG: element 5 is 1, expected 2 (2 of 1024 elements)");
}

}  // namespace tutti::app
