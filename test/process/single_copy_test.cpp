// Reads of another rank's memory, refused and permitted. The results of calls by single copy are
// compared in other tests, which run with TUTTI_SINGLE_COPY=always, too.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"
#include "support/refused_reads.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t count = 100'000;

/// What the library says of single copy when this rank makes its communicator.
class Said {
 public:
  [[nodiscard]] Options options() {
    Options options;
    options.timeout = 10s;
    options.log_level = LogLevel::info;
    options.log = [this](LogLevel, const std::string& text) {
      const std::lock_guard lock(mutex_);
      if (text.find("single copy") != std::string::npos) text_ += text + "\n";
    };
    return options;
  }
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

void all_gather_and_check(Communicator& communicator, int round) {
  const std::vector<int> mine(count, round * 100 + communicator.rank());
  std::vector<int> all(count * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(mine, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect(all[i] == round * 100 + static_cast<int>(i / count), fmt::format("WRONG AT {}", i));
  }
}

void send_around_and_check(Communicator& communicator, int round) {
  const int size = communicator.size();
  const int from = (communicator.rank() + size - 1) % size;
  const std::vector<int> mine(count, round * 100 + communicator.rank());
  std::vector<int> got(count);
  communicator.send_recv(std::span(mine), (communicator.rank() + 1) % size, std::span(got), from);
  expect(std::all_of(got.begin(), got.end(), [&](int v) { return v == round * 100 + from; }),
         "WRONG MESSAGE");
}

}  // namespace

TEST_CASE("single copy is possible between processes of one user, and each can turn it off") {
  for (const bool refuses : {false, true}) {
    CAPTURE(refuses);
    const auto reports = run_ranks(3, [refuses](Rank& rank) -> std::string {
      ::setenv("TUTTI_SINGLE_COPY", refuses && rank.rank() == 1 ? "off" : "always", 1);
      Said said;
      auto& communicator = rank.communicator(said.options());
      for (int round = 0; round < 5; ++round) {
        all_gather_and_check(communicator, round);
        send_around_and_check(communicator, round);
      }
      communicator.finalize();
      return said.text();
    });
    CHECK(errors_of(reports) == "");
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      INFO(reports[rank].text);
      const auto* const due = !refuses    ? ": possible"
                              : rank == 1 ? ": no, TUTTI_SINGLE_COPY=off"
                                          : ": no, local rank 1 has TUTTI_SINGLE_COPY=off";
      CHECK(reports[rank].text.find(due) != std::string::npos);
    }
  }
}

TEST_CASE("if the kernel refuses at one rank, all data goes through shared memory") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    ::setenv("TUTTI_SINGLE_COPY", "always", 1);
    if (rank.rank() == 2 && !refuse_reads()) return "not refused";
    Said said;
    auto& communicator = rank.communicator(said.options());
    for (int round = 0; round < 5; ++round) {
      all_gather_and_check(communicator, round);
      send_around_and_check(communicator, round);
    }
    communicator.finalize();
    return said.text();
  });
  if (reports[2].text == "not refused") {
    WARN("this system does not let a process refuse system calls to itself: not tested");
    return;
  }
  CHECK(errors_of(reports) == "");
  CHECK(reports[2].text.find("can't read local rank 0") != std::string::npos);
  CHECK(reports[0].text.find("possible") != std::string::npos);
}

TEST_CASE("a rank that may read no longer gets messages; collectives end with a remedy") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    ::setenv("TUTTI_SINGLE_COPY", "always", 1);
    auto& communicator = rank.communicator({.timeout = 10s});
    all_gather_and_check(communicator, 0);
    std::array<int, 1> refuses{rank.rank() != 1 || refuse_reads() ? 1 : 0};
    communicator.all_reduce(in_place, std::span(refuses), min);
    if (refuses[0] == 0) return "not refused";
    for (int round = 0; round < 5; ++round) send_around_and_check(communicator, round);
    all_gather_and_check(communicator, 1);
    return "done";
  });
  if (reports[0].text == "not refused") {
    WARN("this system does not let a process refuse system calls to itself: not tested");
    return;
  }
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    INFO(report.failure->sentence);
    CHECK(report.failure->sentence.find("set TUTTI_SINGLE_COPY=off") != std::string::npos);
  }
}

TEST_CASE("a buffer with a hole is an error that names its rank") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    ::setenv("TUTTI_SINGLE_COPY", "always", 1);
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();  // all ranks know who reads whom
    constexpr std::size_t bytes = std::size_t{1} << 20;
    auto* const memory = static_cast<std::byte*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (rank.rank() == 2) ::mprotect(memory + bytes / 2, std::size_t{1} << 16, PROT_NONE);
    communicator.broadcast(std::span(memory, bytes), 2);
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    INFO(report.failure->sentence);
    CHECK(report.failure->sentence.find(
              "of rank 2 of the communicator by process_vm_readv(): its buffer") !=
          std::string::npos);
  }
}

TEST_CASE("a buffer may be overwritten and released as soon as its call has returned") {
  for (const auto* use : {"always", "auto"}) {
    CAPTURE(use);
    const auto reports = run_ranks(3, [use](Rank& rank) -> std::string {
      ::setenv("TUTTI_SINGLE_COPY", use, 1);
      auto& communicator = rank.communicator({.timeout = 10s});
      for (int round = 0; round < 60; ++round) {
        // The system maps blocks of this size for each round, and unmaps them.
        auto mine = std::make_unique<std::vector<int>>(count, round * 3 + communicator.rank());
        std::vector<int> all(count * 3);
        communicator.all_gather(*mine, all);
        std::fill(mine->begin(), mine->end(), -1);
        mine.reset();
        for (std::size_t i = 0; i < all.size(); ++i) {
          expect(all[i] == round * 3 + static_cast<int>(i / count), "OVERWRITTEN");
        }
        std::vector<int> from_root(count, round);
        communicator.broadcast(std::span(from_root), round % 3);
        if (rank.rank() == round % 3) std::fill(from_root.begin(), from_root.end(), -1);
        expect(rank.rank() == round % 3 || from_root[count - 1] == round, "OVERWRITTEN");
        send_around_and_check(communicator, round);
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("children that a rank forks change nothing of what the others read") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    ::setenv("TUTTI_SINGLE_COPY", "always", 1);
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<int> mine(count);
    std::vector<int> all(2 * count);
    for (int round = 0; round < 20; ++round) {
      std::fill(mine.begin(), mine.end(), round * 2 + rank.rank());
      const auto child = ::fork();
      if (child == 0) {
        std::fill(mine.begin(), mine.end(), -1);
        ::_exit(0);
      }
      communicator.all_gather(mine, all);
      for (std::size_t i = 0; i < all.size(); ++i) {
        expect(all[i] == round * 2 + static_cast<int>(i / count), "WRONG");
      }
      send_around_and_check(communicator, round);
      expect(::waitpid(child, nullptr, 0) == child, "NO CHILD");
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
