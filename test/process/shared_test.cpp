// Calls through shared memory, compared with the same calls over links.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "algorithm/choice.hpp"
#include "base/shape.hpp"
#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

constexpr std::array<Operation, 11> operations{
    Operation::broadcast,      Operation::fan_out,    Operation::all_reduce,    Operation::reduce,
    Operation::reduce_scatter, Operation::all_gather, Operation::gather,        Operation::scatter,
    Operation::all_to_all,     Operation::scan,       Operation::exclusive_scan};

/// Small integers, so sums are exact in every type and order.
void fill(std::span<std::byte> buffer, Type type, int rank) {
  const auto bytes = size_of(type);
  for (std::size_t i = 0; i < buffer.size() / bytes; ++i) {
    const auto value = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
    auto* const at = buffer.data() + i * bytes;
    if (type == Type::f32) {
      const auto exact = static_cast<float>(value);
      std::memcpy(at, &exact, sizeof exact);
    } else if (type == Type::bf16) {
      const auto exact = static_cast<float>(value);
      std::memcpy(at, reinterpret_cast<const std::byte*>(&exact) + 2, 2);
    } else {
      std::memset(at, 0, bytes);
      std::memcpy(at, &value, std::min(bytes, sizeof value));
    }
  }
}

struct Case {
  Operation operation;
  Type type;
  Operator op;
  std::size_t count;
  int root;
  bool in_place;
  unsigned zero_copy_buffers =
      0;  ///< two bits per rank: whether its send and its receive buffer are zero-copy

  [[nodiscard]] bool allocated(int rank, int buffer) const {
    return (zero_copy_buffers >> (2 * rank + buffer) & 1U) != 0;
  }
};

std::string describe(const Case& one) {
  return fmt::format("{} of {} {} by {}, root {}{}, zero_copy {:x}", name(one.operation), one.count,
                     name(one.type), name(one.op), one.root, one.in_place ? ", in place" : "",
                     one.zero_copy_buffers);
}

/// Content of the receive buffer after the call.
std::vector<std::byte> result_of(Communicator& communicator, const Case& one,
                                 const std::string& algorithm) {
  const auto& shape = shape_of(one.operation);
  const int rank = communicator.rank();
  const auto blocks = static_cast<std::size_t>(communicator.size());
  const auto elements = [&](Extent extent) {
    return extent == Extent::all ? one.count * blocks : extent == Extent::one ? one.count : 0;
  };
  const bool is_root = rank == one.root;
  const bool sends = !shape.send_at_root_only || is_root;
  const bool receives = !shape.recv_at_root_only || is_root;
  // If only the root has the larger buffer, the other ranks can't be in-place.
  const bool in_place = one.in_place && shape.send != Extent::none &&
                        (is_root || (!shape.send_at_root_only && !shape.recv_at_root_only) ||
                         one.operation == Operation::reduce);
  const auto larger = std::max(elements(shape.send), elements(shape.recv));
  const auto bytes = size_of(one.type);
  const auto send_bytes = (sends ? elements(shape.send) : 0) * bytes;
  const auto recv_bytes = (in_place ? larger : receives ? elements(shape.recv) : 0) * bytes;
  std::vector<std::byte> own_send(one.allocated(rank, 0) ? 0 : send_bytes);
  std::vector<std::byte> own_recv(one.allocated(rank, 1) ? 0 : recv_bytes);
  Allocation<std::byte> lent_send;
  Allocation<std::byte> lent_recv;
  if (one.allocated(rank, 0)) lent_send = communicator.allocate<std::byte>(send_bytes);
  if (one.allocated(rank, 1)) lent_recv = communicator.allocate<std::byte>(recv_bytes);
  const auto send = one.allocated(rank, 0) ? std::span(lent_send) : std::span(own_send);
  const auto recv = one.allocated(rank, 1) ? std::span(lent_recv) : std::span(own_recv);
  fill(send, one.type, rank);
  fill(recv, one.type, rank);
  communicator.run(Collective{.operation = one.operation,
                              .type = one.type,
                              .op = one.op,
                              .root = shape.rooted ? one.root : -1,
                              .send = in_place ? nullptr : send.data(),
                              .send_count = in_place ? 0 : send.size() / bytes,
                              .recv = recv.data(),
                              .recv_count = recv.size() / bytes,
                              .in_place = in_place},
                   {.algorithm = algorithm});
  return {recv.begin(), recv.end()};
}

bool has_average(Operation operation) {
  return shape_of(operation).reduces && !shape_of(operation).scans;
}

void compare(Communicator& communicator, const Case& one) {
  const auto shared = result_of(communicator, one, "shared");
  const bool in_rank_order = one.type == Type::bf16 && shape_of(one.operation).reduces;
  const auto links = algorithm::algorithms_of(one.operation, in_rank_order);
  const auto expected = result_of(communicator, one, std::string(links.front()));
  expect(shared == expected, "DIFFERS: " + describe(one));
}

void all_reduce_once(Communicator& communicator, std::size_t count) {
  std::vector<int> data(count, communicator.rank() + 1);
  communicator.all_reduce(in_place, std::span(data), sum);
  const int size = communicator.size();
  for (const int value : data) expect(value == size * (size + 1) / 2, "WRONG SUM");
}

}  // namespace

TEST_CASE("calls through shared memory give the same results as over links") {
  for (const int size : {2, 3, 4, 8}) {
    CAPTURE(size);
    const auto reports = run_ranks(
        size,
        [size](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 20s});
          int root = 0;
          for (const auto operation : operations) {
            for (const auto type : {Type::u8, Type::bf16, Type::f32, Type::i64}) {
              for (const auto op : {sum, average}) {
                if (op == average && !has_average(operation)) continue;
                for (const std::size_t count : {0, 1, 5, 13, 777, 20011, 150001}) {
                  if (count > 100000 && type != Type::f32) continue;
                  root = (root + 1) % size;
                  for (const bool in_place : {false, true}) {
                    compare(communicator, {operation, type, op, count, root, in_place});
                  }
                }
              }
            }
          }
          communicator.finalize();
          return "done";
        },
        60s);
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("slots, pages and ring buffers give right results between many ranks, too") {
  const auto reports = run_ranks(
      12,
      [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 20s});
        int root = 0;
        for (const auto operation : operations) {
          // Elements of 4 bytes; a page holds 1024.
          for (const std::size_t count : {2, 9, 85, 341, 682, 777, 1023, 1025, 3000}) {
            root = (root + 5) % 12;
            for (const bool in_place : {false, true}) {
              compare(communicator, {operation, Type::f32, sum, count, root, in_place});
            }
          }
        }
        communicator.finalize();
        return "done";
      },
      60s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("zero-copy buffers are read directly, whichever ranks have some") {
  for (const int size : {2, 4, 5}) {
    CAPTURE(size);
    const auto reports = run_ranks(
        size,
        [size](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 20s});
          int number = 0;
          for (const auto operation : operations) {
            for (const auto type : {Type::bf16, Type::f32}) {
              const auto op = has_average(operation) ? average : sum;
              for (const std::size_t count : {777, 20011, 150001}) {
                for (const bool in_place : {false, true}) {
                  // All buffers are zero-copy, none is, and mixtures.
                  for (const unsigned zero_copy_buffers :
                       {~0U, 0x5A96U * static_cast<unsigned>(++number)}) {
                    compare(communicator, {operation, type, op, count, number % size, in_place,
                                           zero_copy_buffers});
                  }
                }
              }
            }
          }
          communicator.finalize();
          return "done";
        },
        60s);
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("a zero-copy buffer may be overwritten when the call has returned") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    const std::size_t count = 100'000;
    auto zero_copy = communicator.allocate<int>(count);
    std::vector<int> got(count * 3);
    for (int round = 0; round < 200; ++round) {
      std::fill(zero_copy.begin(), zero_copy.end(), round * 3 + rank.rank());
      communicator.all_gather(zero_copy, got);
      // A rank that still reads would see this.
      std::fill(zero_copy.begin(), zero_copy.end(), -1);
      for (int from = 0; from < 3; ++from) {
        const auto* const block = got.data() + static_cast<std::size_t>(from) * count;
        expect(std::all_of(block, block + count, [&](int v) { return v == round * 3 + from; }),
               "OVERWRITTEN");
      }
    }
    // Memory that is freed and allocated again is zero.
    zero_copy = {};
    zero_copy = communicator.allocate<int>(count);
    expect(std::all_of(zero_copy.begin(), zero_copy.end(), [](int v) { return v == 0; }),
           "NOT ZERO");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("each kind of copy through shared memory gives the same result") {
  const auto reports = run_ranks(
      3,
      [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 20s});
        auto other = communicator.duplicate();  // its collective channel has smaller rounds
        for (const auto operation : operations) {
          // The kinds of copies alternate in a communicator's first calls of an operation and size.
          for (int call = 0; call < 12; ++call) {
            const Case one{operation, Type::f32, sum, 150001, call % 3, call % 2 == 0};
            compare(communicator, one);
            compare(other, one);
          }
        }
        communicator.finalize();
        return "done";
      },
      60s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("ranks without shared memory, or with it disabled, communicate over links") {
  for (const bool disabled : {true, false}) {
    CAPTURE(disabled);
    const auto reports = run_ranks(3, [disabled](Rank& rank) -> std::string {
      int warnings = 0;
      if (disabled) {
        ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
      } else {
        const rlimit small{4096, 4096};
        ::setrlimit(RLIMIT_FSIZE, &small);
      }
      auto& communicator =
          rank.communicator({.timeout = 10s, .log = [&](LogLevel level, const std::string&) {
                               if (level == LogLevel::warning) ++warnings;
                             }});
      expect(warnings == (disabled || rank.rank() != 0 ? 0 : 1),
             fmt::format("{} WARNINGS", warnings));
      all_reduce_once(communicator, 1000);
      expect(communicator.latest_algorithm() != "shared", "SHARED");
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("a rank that attaches to the shared segment some seconds late succeeds") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    rank.bootstrap().after = [&](int number) {
      if (number == 3 && rank.rank() == 1) std::this_thread::sleep_for(2500ms);
    };
    auto& communicator = rank.communicator({.timeout = 30s});
    all_reduce_once(communicator, 1000);
    expect(communicator.latest_algorithm() == "shared", "NOT SHARED");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("more communicators than collective channels in shared memory, and channels used again") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& whole = rank.communicator({.timeout = 10s});
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<Communicator> many;
      for (int i = 0; i < 12; ++i) {
        if (i % 3 == 2) {
          many.push_back(std::move(*whole.split(whole.rank() % 2, -whole.rank())));
        } else {
          many.push_back(whole.duplicate());
        }
        for (auto& one : many) all_reduce_once(one, i % 2 == 0 ? 3 : 30000);
      }
      int shared = 0;
      for (const auto& one : many) shared += one.latest_algorithm() == "shared" ? 1 : 0;
      expect(shared == 7, fmt::format("{} SHARE in turn {}", shared, turn));
      // In a different order on different ranks.
      while (!many.empty()) many.erase(whole.rank() % 2 == 0 ? many.begin() : many.end() - 1);
      all_reduce_once(whole, 10);
    }
    whole.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("blocking and non-blocking calls use shared memory in their order") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    const int size = communicator.size();
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<std::vector<int>> data;
      std::vector<Work> works;
      for (std::size_t i = 0; i < 6; ++i) {
        data.emplace_back(i % 2 == 0 ? 5 : 70000, rank.rank() + static_cast<int>(i));
      }
      for (std::size_t i = 0; i < 6; ++i) {
        // Each rank decides independently whether it waits.
        if ((static_cast<std::size_t>(rank.rank() + turn) + i) % 3 == 0) {
          communicator.all_reduce(in_place, std::span(data[i]), sum);
        } else {
          works.push_back(communicator.start_all_reduce(in_place, std::span(data[i]), sum));
        }
      }
      for (auto& work : works) work.wait();
      for (std::size_t i = 0; i < 6; ++i) {
        const int due = size * (size - 1) / 2 + size * static_cast<int>(i);
        for (const int value : data[i]) expect(value == due, "WRONG SUM");
      }
    }
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
