// What a program can rely on besides communication: its signals, its children, its limits.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

volatile std::sig_atomic_t pipes = 0;

void count_pipe(int) {
  pipes = pipes + 1;
}

struct Signals {
  std::array<struct sigaction, 32> actions{};
  sigset_t mask{};

  static Signals now() {
    Signals result;
    for (int number = 1; number < 32; ++number) {
      ::sigaction(number, nullptr, &result.actions[static_cast<std::size_t>(number)]);
    }
    ::sigprocmask(SIG_BLOCK, nullptr, &result.mask);
    return result;
  }
  void require_same(const Signals& other) const {
    for (std::size_t number = 1; number < actions.size(); ++number) {
      expect(actions[number].sa_handler == other.actions[number].sa_handler &&
                 actions[number].sa_flags == other.actions[number].sa_flags &&
                 ::sigismember(&mask, static_cast<int>(number)) ==
                     ::sigismember(&other.mask, static_cast<int>(number)),
             fmt::format("SIGNAL {} IS NOT AS IT WAS", number));
    }
  }
};

void all_reduce_once(Communicator& communicator, std::size_t count) {
  std::vector<float> data(count, 1);
  communicator.all_reduce(in_place, std::span(data), sum);
  for (const auto value : data) {
    expect(value == static_cast<float>(communicator.size()), "WRONG DATA");
  }
}

bool has_mapping(const std::string& name) {
  std::ifstream file("/proc/self/maps");
  std::string line;
  while (std::getline(file, line)) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE(
    "a peer that dies during a message causes no SIGPIPE, and signal handlers stay unchanged") {
  for (const bool counted : {false, true}) {
    CAPTURE(counted);
    Job job(2, [counted](Rank& rank) -> std::string {
      ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
      // The default action of SIGPIPE ends the process.
      ::signal(SIGPIPE, counted ? count_pipe : SIG_DFL);
      const auto before = Signals::now();
      auto& communicator = rank.communicator({.timeout = 20s});
      before.require_same(Signals::now());
      std::vector<float> data(1'000'000);
      try {
        while (true) {
          if (rank.rank() == 0) communicator.send(std::span<const float>(data), 1);
          if (rank.rank() == 1) communicator.recv(std::span(data), 0);
          rank.mark();
        }
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::peer_lost, error.sentence());
      }
      rank.destroy_communicators();
      before.require_same(Signals::now());
      expect(pipes == 0, "the program's handler was called");
      return "untouched";
    });
    job.await_marks(0, 20);
    job.signal(1, SIGKILL);
    const auto reports = job.finish();
    INFO(describe(reports));
    CHECK(reports[0].text == "untouched");
  }
}

TEST_CASE("a child that a rank forks has none of the shared memory mapped, and may exit normally") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    all_reduce_once(communicator, 1000);
    expect(has_mapping("memfd:tutti"), "this test looks for shared memory and there is none");
    const auto child = ::fork();
    if (child == 0) {
      const bool holds = has_mapping("memfd:tutti");
      // As destructors of static objects at exit() do. It must not affect the parent.
      rank.destroy_communicators();
      ::_exit(holds ? 1 : 7);
    }
    int status = 0;
    const auto limit = Clock::now() + 10s;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (Clock::now() > limit) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        break;
      }
      std::this_thread::sleep_for(1ms);
    }
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 7,
           fmt::format("the child ended with status {:#x}", status));
    for (int i = 0; i < 10; ++i) all_reduce_once(communicator, 100'000);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("what a program writes to closed standard descriptors goes to no other rank") {
  ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    auto& communicator = rank.communicator({.timeout = 10s});
    const std::string text = "a line of a program's log\n";
    for (int i = 0; i < 5; ++i) {
      // The first round opens links.
      all_reduce_once(communicator, 100'000);
      for (int fd = 0; fd < 3; ++fd) {
        expect(::write(fd, text.data(), text.size()) < 0, "THE TEXT WENT SOMEWHERE");
      }
    }
    communicator.finalize();
    return "done";
  });
  ::unsetenv("TUTTI_SHARED_MEMORY");
  CHECK(errors_of(reports) == "");
}

TEST_CASE("memory that a rank has allocated outlives a forked child that lets go of it") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    auto zero_copy = communicator.allocate<int>(50'000);
    std::fill(zero_copy.begin(), zero_copy.end(), rank.rank() + 1);
    const auto child = ::fork();
    if (child == 0) {
      const bool sees = zero_copy[49'999] == rank.rank() + 1;
      zero_copy = {};
      ::_exit(sees ? 7 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 7,
           fmt::format("the child ended with status {:#x}", status));
    communicator.all_reduce(in_place, zero_copy, sum);
    expect(std::all_of(zero_copy.begin(), zero_copy.end(), [](int value) { return value == 3; }),
           "LOST");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a low soft limit of descriptors is raised to the hard one") {
  const auto reports = run_ranks(16, [](Rank& rank) -> std::string {
    const rlimit low{24, 1024};
    expect(::setrlimit(RLIMIT_NOFILE, &low) == 0, "this test can't lower its limit");
    auto& communicator = rank.communicator({.timeout = 20s});
    all_reduce_once(communicator, 1000);
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    expect(now.rlim_cur == 1024, fmt::format("the limit is {}", now.rlim_cur));
    communicator.finalize();
    return "works";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
