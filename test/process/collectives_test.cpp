// Collectives between processes: every element of every result is checked on every rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <thread>

#include "algorithm/choice.hpp"
#include "pattern.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

constexpr std::array<Type, 10> all_types{Type::i8,  Type::u8,  Type::i32,  Type::u32, Type::i64,
                                         Type::u64, Type::f16, Type::bf16, Type::f32, Type::f64};
constexpr std::array<Operator, 5> all_operators{sum, product, min, max, average};

/// 0, 1, a few, odd counts, around the eager limit, and several chunks of a pipeline.
constexpr std::array<std::size_t, 8> counts{0, 1, 2, 7, 1001, 16384, 65537, 350001};

void try_from_root(Communicator& communicator, Operation operation, std::size_t count, int root,
                   std::size_t offset, const CallOptions& options, const std::string& what) {
  Buffer<std::uint8_t> buffer(count, offset);
  buffer.fill_from(communicator.rank() == root ? root : 1000 + communicator.rank());
  communicator.run(Collective{.operation = operation,
                              .type = Type::u8,
                              .root = root,
                              .recv = buffer.data(),
                              .recv_count = count},
                   options);
  buffer.require_from(root, fmt::format("{} of {} from {} at +{}", what, count, root, offset));
}

template <class T>
T reduced(Operator op, int ranks, std::size_t i) {
  // Unsigned arithmetic wraps around, as in the reduction.
  std::uint64_t total = op == product ? 1 : 0;
  double exact = op == product ? 1 : 0;
  int least = value_of(0, i);
  int most = least;
  for (int rank = 0; rank < ranks; ++rank) {
    const int value = op == product ? 1 + value_of(rank, i) % 2 : value_of(rank, i);
    total = op == product ? total * static_cast<std::uint64_t>(value)
                          : total + static_cast<std::uint64_t>(value);
    exact = op == product ? exact * value : exact + value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (op == min) return static_cast<T>(least);
  if (op == max) return static_cast<T>(most);
  if constexpr (std::is_floating_point_v<T>) {
    return op == average ? static_cast<T>(static_cast<T>(exact) / static_cast<T>(ranks))
                         : static_cast<T>(exact);
  } else {
    const auto wrapped = static_cast<T>(total);
    return op == average ? static_cast<T>(wrapped / static_cast<T>(ranks)) : wrapped;
  }
}

template <class T>
void try_all_reduce(Communicator& communicator, std::size_t count, Operator op, std::size_t offset,
                    const CallOptions& options = {}) {
  const auto what = fmt::format("all_reduce of {} {}, {}, at +{} {}", count, name(TypeOf<T>::value),
                                name(op), offset, options.algorithm);
  const int rank = communicator.rank();
  const auto mine = [&](std::size_t i) {
    return static_cast<T>(op == product ? 1 + value_of(rank, i) % 2 : value_of(rank, i));
  };
  const auto due = [&](std::size_t i) { return reduced<T>(op, communicator.size(), i); };

  Buffer<T> send(count, offset);
  Buffer<T> recv(count, (offset * 3) % 16);
  send.fill(mine);
  recv.fill([](std::size_t) { return T{55}; });
  communicator.all_reduce(std::span(send.data(), count), std::span(recv.data(), count), op,
                          options);
  recv.require(due, what);
  send.require(mine, what + ", the input");

  communicator.all_reduce(in_place, std::span(send.data(), count), op, options);
  send.require(due, what + ", in place");
}

template <class T>
void try_type(Communicator& communicator) {
  for (const auto op : all_operators) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{13}, std::size_t{40001}}) {
      try_all_reduce<T>(communicator, count, op, 0);
    }
  }
}

}  // namespace

TEST_CASE("broadcast and fan_out, every root") {
  for (const int size : sizes) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      for (int root = 0; root < rank.size(); ++root) {
        for (const auto count : counts) {
          const auto offset = (count + static_cast<std::size_t>(root)) % 16;
          try_from_root(communicator, Operation::broadcast, count, root, offset, {}, "broadcast");
          try_from_root(communicator, Operation::fan_out, count, root, offset, {}, "fan_out");
        }
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("every element type is moved whole") {
  for (const int size : {2, 3}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      for (const auto type : all_types) {
        const std::size_t count = 5003;
        const auto bytes = count * size_of(type);
        for (const auto operation : {Operation::broadcast, Operation::fan_out}) {
          Buffer<std::uint8_t> buffer(bytes);
          buffer.fill_from(rank.rank());
          communicator.run(Collective{.operation = operation,
                                      .type = type,
                                      .root = 1,
                                      .recv = buffer.data(),
                                      .recv_count = count});
          buffer.require_from(1, fmt::format("{}", name(type)));
        }
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("all_reduce of every type with every operator, in-place and out-of-place") {
  for (const int size : sizes) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      try_type<std::int8_t>(communicator);
      try_type<std::uint8_t>(communicator);
      try_type<std::int32_t>(communicator);
      try_type<std::uint32_t>(communicator);
      try_type<std::int64_t>(communicator);
      try_type<std::uint64_t>(communicator);
      try_type<float>(communicator);
      try_type<double>(communicator);
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("all_reduce of all counts, and at any address") {
  for (const int size : sizes) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      for (const auto count : counts) try_all_reduce<float>(communicator, count, sum, 0);
      for (std::size_t offset = 1; offset < 16; ++offset) {
        try_all_reduce<double>(communicator, 3001, sum, offset);
        try_all_reduce<float>(communicator, 30011, max, offset);
        try_all_reduce<std::int32_t>(communicator, 11, sum, offset);
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("average of integers truncates toward zero, also negative ones") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator();
    std::array<std::int32_t, 3> data{rank.rank() == 0 ? 1 : 2, rank.rank() == 0 ? -1 : -2, 4};
    communicator.all_reduce(in_place, std::span(data), average);
    expect(data[0] == 1 && data[1] == -1 && data[2] == 4,
           fmt::format("{} {} {}", data[0], data[1], data[2]));
    std::array<float, 1> real{rank.rank() == 0 ? 2.0F : 4.0F};
    communicator.all_reduce(in_place, std::span(real), average);
    expect(real[0] == 3.0F, fmt::format("{}", real[0]));
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("NaN wins in min and max on every rank") {
  for (const int size : {2, 3, 4}) {
    for (const std::size_t count : {std::size_t{9}, std::size_t{100001}}) {
      CAPTURE(size, count);
      const auto reports = run_ranks(size, [count](Rank& rank) -> std::string {
        auto& communicator = rank.communicator();
        for (const auto op : {min, max}) {
          for (int victim = 0; victim < rank.size(); ++victim) {
            std::vector<float> data(count, static_cast<float>(rank.rank()));
            if (rank.rank() == victim) data[count / 2] = std::numeric_limits<float>::quiet_NaN();
            communicator.all_reduce(in_place, std::span(data), op);
            const float due = op == min ? 0.0F : static_cast<float>(rank.size() - 1);
            for (std::size_t i = 0; i < count; ++i) {
              const bool right = i == count / 2 ? data[i] != data[i] : data[i] == due;
              expect(right, fmt::format("{} of NaN on rank {}: element {} is {}", name(op), victim,
                                        i, data[i]));
            }
          }
        }
        return "done";
      });
      CHECK(errors_of(reports) == "");
    }
  }
}

TEST_CASE("a sum has the same bits on all ranks and in each run") {
  for (const int size : {3, 4, 5}) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{200001}}) {
      CAPTURE(size, count);
      const auto reports = run_ranks(size, [count](Rank& rank) -> std::string {
        auto& communicator = rank.communicator();
        std::uint64_t first = 0;
        for (int run = 0; run < 5; ++run) {
          std::vector<float> data(count);
          for (std::size_t i = 0; i < count; ++i) {
            // Sums that depend on the order of additions.
            data[i] = 1.0F / static_cast<float>(1 + value_of(rank.rank(), i)) *
                      (i % 2 == 0 ? 1e6F : 1e-3F);
          }
          communicator.all_reduce(in_place, std::span(data), sum);
          std::uint64_t hash = 14695981039346656037U;
          for (const auto byte : std::as_bytes(std::span(data))) {
            hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
          }
          if (run == 0) first = hash;
          expect(hash == first, "another run, other bits");
        }
        return fmt::format("{:x}", first);
      });
      REQUIRE(errors_of(reports) == "");
      for (const auto& report : reports) CHECK(report.text == reports[0].text);
    }
  }
}

TEST_CASE("each algorithm by name") {
  for (const int size : sizes) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      std::string used;
      const auto require_used = [&](std::string_view algorithm) {
        expect(communicator.latest_algorithm() == algorithm,
               fmt::format("{} was asked for and {} used", algorithm,
                           communicator.latest_algorithm()));
        used += fmt::format("{} ", algorithm);
      };
      for (const std::size_t count : {std::size_t{1}, std::size_t{1001}, std::size_t{350001}}) {
        for (const auto algorithm : algorithm::algorithms_of(Operation::broadcast)) {
          for (int root = 0; root < rank.size(); ++root) {
            const CallOptions options{.algorithm = algorithm};
            try_from_root(communicator, Operation::broadcast, count, root, 0, options,
                          fmt::format("broadcast by {}", algorithm));
            require_used(algorithm);
          }
        }
        for (const auto algorithm : algorithm::algorithms_of(Operation::fan_out)) {
          const CallOptions options{.algorithm = algorithm};
          try_from_root(communicator, Operation::fan_out, count, 0, 0, options, "fan_out");
          require_used(algorithm);
        }
        for (const auto algorithm : algorithm::algorithms_of(Operation::all_reduce)) {
          const CallOptions options{.algorithm = algorithm};
          try_all_reduce<float>(communicator, count, sum, 0, options);
          require_used(algorithm);
        }
      }
      for (const auto algorithm : algorithm::algorithms_of(Operation::barrier)) {
        communicator.barrier({.algorithm = algorithm});
        require_used(algorithm);
      }
      communicator.finalize();
      return used;
    });
    CHECK(errors_of(reports) == "");
    CHECK(reports[0].text.find("scatter_ring") != std::string::npos);
    CHECK(reports[0].text.find("recursive_doubling") != std::string::npos);
  }
}

TEST_CASE("64 MiB once") {
  const auto reports = run_ranks(
      4,
      [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator();
        constexpr std::size_t count = std::size_t{16} << 20;
        std::vector<float> data(count);
        const auto fill = [&](int from) {
          for (std::size_t i = 0; i < count; ++i)
            data[i] = static_cast<float>((i + static_cast<std::size_t>(from) * 31) % 9973);
        };
        const auto require = [&](auto due, const char* what) {
          for (std::size_t i = 0; i < count; ++i) {
            if (data[i] != due(i)) expect(false, fmt::format("{}: WRONG DATA at {}", what, i));
          }
        };
        const auto from = [](int root) {
          return [root](std::size_t i) {
            return static_cast<float>((i + static_cast<std::size_t>(root) * 31) % 9973);
          };
        };
        fill(rank.rank());
        communicator.broadcast(std::span(data), 2);
        require(from(2), "broadcast");
        fill(rank.rank());
        communicator.fan_out(std::span(data), 1);
        require(from(1), "fan_out");
        fill(rank.rank());
        communicator.all_reduce(in_place, std::span(data), max);
        require(
            [&](std::size_t i) {
              return std::max({from(0)(i), from(1)(i), from(2)(i), from(3)(i)});
            },
            "all_reduce");
        communicator.finalize();
        return "done";
      },
      60s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("no rank leaves a barrier before all have entered") {
  for (const int size : {2, 3, 5, 8}) {
    CAPTURE(size);
    Job job(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      for (int round = 0; round < 5; ++round) {
        if (rank.rank() == round % rank.size()) std::this_thread::sleep_for(20ms);
        rank.stamp();
        communicator.barrier();
        rank.mark();
      }
      if (rank.rank() == rank.size() - 1) std::this_thread::sleep_for(100ms);
      rank.stamp();
      communicator.barrier();
      const auto left = Clock::now();
      return fmt::format("{}", left.time_since_epoch().count());
    });
    const auto reports = job.finish();
    REQUIRE(errors_of(reports) == "");
    for (const auto& report : reports) {
      const Clock::time_point left{Clock::duration(std::stoll(report.text))};
      for (int rank = 0; rank < size; ++rank) CHECK(left >= job.stamped(rank));
    }
  }
}

TEST_CASE("ranks wait for a late root") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 5s});
    communicator.barrier();
    const auto begin = Clock::now();
    if (rank.rank() == 0) std::this_thread::sleep_for(1s);
    try_from_root(communicator, Operation::broadcast, 100000, 0, 0, {}, "broadcast");
    expect(Clock::now() - begin > 900ms, "somebody did not wait for the root");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("thousands of small calls in a row") {
  for (const int size : {2, 4}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      for (int i = 0; i < 2000; ++i) {
        std::array<std::int32_t, 3> data{i, rank.rank(), 1};
        communicator.all_reduce(in_place, std::span(data), sum);
        const int n = rank.size();
        expect(data[0] == n * i && data[1] == n * (n - 1) / 2 && data[2] == n,
               fmt::format("all_reduce {} is wrong", i));
        std::array<std::int32_t, 1> word{rank.rank() == i % n ? i : -1};
        communicator.broadcast(std::span(word), i % n);
        expect(word[0] == i, fmt::format("broadcast {} is wrong", i));
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

}  // namespace tutti::test
