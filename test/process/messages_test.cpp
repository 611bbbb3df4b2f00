// send, recv and send_recv: order, tags, sizes, and calls that must not block.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "numbered_messages.hpp"
#include "support/catch.hpp"

namespace tutti::test {

TEST_CASE("messages of any size between any two ranks, in order") {
  for (const int size : {2, 3, 5, 8}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      constexpr std::array<std::size_t, 9> counts{0,     1,     3,      1000,   16384,
                                                  16385, 50001, 262145, 1000003};
      for (int from = 0; from < rank.size(); ++from) {
        for (int to = 0; to < rank.size(); ++to) {
          if (from == to) continue;
          for (int i = 0; i < static_cast<int>(counts.size()); ++i) {
            const auto count = counts[static_cast<std::size_t>(i)];
            const auto offset = static_cast<std::size_t>(i + from) % 16;
            if (rank.rank() == from) send(communicator, to, count, i, 0, offset);
            if (rank.rank() == to) recv(communicator, from, count, i, 0, 15 - offset);
          }
        }
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("small messages with different tags overtake each other") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 5s});
    if (rank.rank() == 0) {
      send(communicator, 1, 1000, 1, 1);
      send(communicator, 1, 2000, 2, 2);
      send(communicator, 1, 500, 3, 1);
      send(communicator, 1, 0, 4, 3);
    } else {
      recv(communicator, 0, 0, 4, 3);
      recv(communicator, 0, 2000, 2, 2);
      recv(communicator, 0, 1000, 1, 1);
      recv(communicator, 0, 500, 3, 1);
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("large messages of two senders are received in the receiver's order") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();
    constexpr std::size_t count = std::size_t{4} << 20;
    if (rank.rank() < 2) send(communicator, 2, count, 7, static_cast<std::uint32_t>(rank.rank()));
    if (rank.rank() == 2) {
      std::this_thread::sleep_for(100ms);
      recv(communicator, 1, count, 7, 1);
      recv(communicator, 0, count, 7, 0);
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a large send returns only after its receive has been posted") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();
    const auto begin = Clock::now();
    constexpr std::size_t count = std::size_t{32} << 20;
    if (rank.rank() == 0) {
      send(communicator, 1, count, 1);
      expect(Clock::now() - begin > 250ms, "the kernel can't hold that much: who has it?");
    } else {
      std::this_thread::sleep_for(300ms);
      recv(communicator, 0, count, 1);
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("an empty message has been sent when its send returns") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 2s});
    if (rank.rank() == 0) {
      // The first data to rank 1, while the connection is still being opened.
      send(communicator, 1, 0, 1);
      std::this_thread::sleep_for(3s);
    } else {
      recv(communicator, 0, 0, 1);
    }
    communicator.finalize({.timeout = 10s});
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a ring of sends of 16 MiB each does not deadlock") {
  for (const int size : {1, 2, 3, 5, 8}) {
    CAPTURE(size);
    const auto reports = run_ranks(
        size,
        [](Rank& rank) -> std::string {
          auto& communicator = rank.communicator();
          constexpr std::size_t count = std::size_t{16} << 20;
          const int to = (rank.rank() + 1) % rank.size();
          const int from = (rank.rank() + rank.size() - 1) % rank.size();
          std::vector<std::uint64_t> sent(count / 8);
          std::vector<std::uint64_t> received(count / 8, 7);
          const auto value = [](int source, std::size_t i) {
            return static_cast<std::uint64_t>(source) << 40 | i;
          };
          for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = value(rank.rank(), i);
          communicator.send_recv(std::span<const std::uint64_t>(sent), to, std::span(received),
                                 from);
          for (std::size_t i = 0; i < sent.size(); ++i) {
            if (received[i] != value(from, i)) expect(false, fmt::format("WRONG DATA at {}", i));
          }
          communicator.finalize();
          return "done";
        },
        60s);
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("send_recv of different counts, to itself, and empty") {
  for (const int size : {2, 3}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 10s});
      const int to = (rank.rank() + 1) % rank.size();
      const int from = (rank.rank() + rank.size() - 1) % rank.size();
      const auto count_of = [](int source) {
        return static_cast<std::size_t>(source) * std::size_t{70000};
      };
      for (int round = 0; round < 3; ++round) {
        Buffer<std::uint8_t> out(count_of(rank.rank()), 3);
        Buffer<std::uint8_t> in(count_of(from), 5);
        out.fill_from(rank.rank() + round);
        in.fill_from(12345);
        communicator.send_recv(std::span(out.data(), out.count()), to,
                               std::span(in.data(), in.count()), from);
        in.require_from(from + round, "send_recv");
        Buffer<std::uint8_t> own(1000);
        const auto least = std::min(out.count(), own.count());
        communicator.send_recv(std::span(out.data(), least), rank.rank(),
                               std::span(own.data(), least), rank.rank());
        Buffer<std::uint8_t> started(1000);
        communicator
            .start_send_recv(std::span(out.data(), least), rank.rank(),
                             std::span(started.data(), least), rank.rank())
            .wait();
        for (const auto* const copy : {own.data(), started.data()}) {
          expect(std::equal(copy, copy + least, out.data()), "WRONG DATA from oneself");
        }
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("unexpected small messages block neither another tag nor a collective") {
  // Up to the credit of a link. Beyond it the sender blocks, as in the next test.
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();
    constexpr int small = 60;
    if (rank.rank() == 0) {
      for (int i = 0; i < small; ++i) send(communicator, 1, 4000, i, 1);
      send(communicator, 1, 3000000, 77, 2);
    }
    if (rank.rank() == 1) recv(communicator, 0, 3000000, 77, 2);
    for (int i = 0; i < 20; ++i) {
      for (const std::size_t count : {std::size_t{10}, std::size_t{100000}}) {
        std::vector<std::int32_t> data(count, rank.rank());
        communicator.all_reduce(in_place, std::span(data), sum);
        for (const auto value : data) expect(value == 3, "WRONG DATA in all_reduce");
        std::fill(data.begin(), data.end(), rank.rank() == 0 ? i : -1);
        communicator.broadcast(std::span(data), 0);
        for (const auto value : data) expect(value == i, "WRONG DATA in broadcast");
      }
      communicator.barrier();
    }
    if (rank.rank() == 1) {
      for (int i = 0; i < small; ++i) recv(communicator, 0, 4000, i, 1);
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("more small messages than any buffer wait for their receiver and all arrive") {
  const auto reports = run_ranks(
      2,
      [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 20s});
        communicator.barrier();
        constexpr int many = 3000;
        if (rank.rank() == 0) {
          for (int i = 0; i < many; ++i) send(communicator, 1, 4000, i, 1);
          rank.mark();
        } else {
          std::this_thread::sleep_for(200ms);
          for (int i = 0; i < many; ++i) recv(communicator, 0, 4000, i, 1);
        }
        communicator.finalize();
        return "done";
      },
      40s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("two ranks full of unexpected messages both ways can still communicate") {
  // Each rank has used nearly all its credit towards the other; then both make a large collective
  // call.
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    const int peer = 1 - rank.rank();
    constexpr int count = 26;
    for (int i = 0; i < count; ++i) send(communicator, peer, 10000, i, 9);
    std::vector<std::int32_t> data(1000000, rank.rank());
    communicator.all_reduce(in_place, std::span(data), sum);
    for (const auto value : data) expect(value == 1, "WRONG DATA in all_reduce");
    for (int i = 0; i < count; ++i) recv(communicator, peer, 10000, i, 9);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("an unexpected message is not lost when this rank sends one with the same tag") {
  // The first message with tag 9 in each direction. Rank 1 has buffered rank 0's when it sends.
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 2s});
    communicator.barrier();
    for (int round = 0; round < 3; ++round) {
      if (rank.rank() == 0) send(communicator, 1, 1000, round, 9);
      communicator.barrier();  // after the barrier, earlier data on the link has been read
      if (rank.rank() == 1) send(communicator, 0, 1000, round, 9);
      recv(communicator, 1 - rank.rank(), 1000, round, 9);
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a small request with a large answer, which is awaited before the request is read") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 2s});
    communicator.barrier();
    for (int round = 0; round < 5; ++round) {
      if (rank.rank() == 1) {
        send(communicator, 0, 10, round);
        recv(communicator, 0, 1000000, round);
      } else {
        std::this_thread::sleep_for(30ms);
        recv(communicator, 1, 10, round);
        send(communicator, 1, 1000000, round);
      }
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("an answer wakes a sleeping rank, even after a spurious wake-up") {
  // Without a wake-up the sleeper polls only every 100 ms. On a loaded host some calls take that
  // long.
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator();
    constexpr int rounds = 20;
    int slept_through = 0;
    for (int i = 0; i < rounds; ++i) {
      communicator.barrier();
      const auto begin = std::chrono::steady_clock::now();
      if (rank.rank() == 0) {
        send(communicator, 1, 4, i);
        recv(communicator, 1, 4, i);
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(400));
        recv(communicator, 0, 4, i);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        send(communicator, 0, 4, i);
      }
      const auto took = std::chrono::steady_clock::now() - begin;
      slept_through += took > std::chrono::milliseconds(90) ? 1 : 0;
    }
    expect(slept_through < rounds / 2, fmt::format("{} times not woken", slept_through));
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("blocking and non-blocking messages, short and long, in any mixture") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    constexpr std::array<std::size_t, 8> counts{1, 4, 8, 57, 1000, 8191, 8192, 100'000};
    // The same on all ranks.
    std::mt19937 random(31);
    std::vector<std::byte> out(100'000);
    std::vector<std::byte> in(100'000);
    for (int i = 0; i < 3000; ++i) {
      const auto from = static_cast<int>(random() % 3);
      const auto to = (from + 1 + static_cast<int>(random() % 2)) % 3;
      const auto count = counts[random() % counts.size()];
      const CallOptions options{.tag = static_cast<std::uint32_t>(random() % 2)};
      const bool starts_send = random() % 4 == 0;
      const bool starts_recv = random() % 4 == 0;
      const auto value = static_cast<std::byte>(i);
      if (rank.rank() == from) {
        const auto bytes = std::span(out).first(count);
        std::fill(bytes.begin(), bytes.end(), value);
        if (starts_send) communicator.start_send(bytes, to, options).wait();
        if (!starts_send) communicator.send(bytes, to, options);
      }
      if (rank.rank() == to) {
        const auto bytes = std::span(in).first(count);
        if (starts_recv) communicator.start_recv(bytes, from, options).wait();
        if (!starts_recv) communicator.recv(bytes, from, options);
        if (std::any_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b != value; })) {
          return fmt::format("message {} of {} bytes is wrong", i, count);
        }
      }
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a request and its answer, ten thousand times") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator();
    for (int i = 0; i < 10000; ++i) {
      std::array<std::int32_t, 1> word{i};
      if (rank.rank() == 0) {
        communicator.send(std::span(word), 1);
        communicator.recv(std::span(word), 1);
        expect(word[0] == i + 1, fmt::format("answer {} is {}", i, word[0]));
      } else {
        communicator.recv(std::span(word), 0);
        word[0] += 1;
        communicator.send(std::span(word), 0);
      }
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
