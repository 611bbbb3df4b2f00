// Creation and destruction of communicators, and their properties.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "pattern.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

std::size_t threads_of_this_process() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

/// The kinds of open descriptors by their names in /proc. Includes the directory that is read.
std::vector<std::string> descriptors(const std::string& process) {
  std::vector<std::string> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    result.push_back(std::filesystem::read_symlink(entry, error).string());
  }
  return result;
}

}  // namespace

TEST_CASE("a communicator of one: every call works alone") {
  AloneBootstrap alone;
  // ThreadSanitizer creates a thread together with the first thread of a process.
  std::thread([] {}).join();
  const auto threads = threads_of_this_process();
  {
    auto communicator = Communicator::create(alone);
    CHECK(communicator.rank() == 0);
    CHECK(communicator.size() == 1);
    CHECK(communicator.local_rank() == 0);
    CHECK(communicator.local_size() == 1);
    CHECK(communicator.host_count() == 1);
    require_sum(communicator);
    std::vector<float> data(10, 3.0F);
    std::vector<float> other(10);
    communicator.broadcast(std::span(data), 0);
    communicator.fan_out(std::span(data), 0);
    communicator.send_recv(std::span(data), 0, std::span(other), 0);
    CHECK(other == data);
    communicator.barrier();
    communicator.finalize();
  }
  CHECK(threads_of_this_process() == threads);
}

TEST_CASE("two communicators in a row, and many") {
  for (const int size : {2, 4}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      const auto threads = threads_of_this_process();
      for (int i = 0; i < 20; ++i) {
        require_sum(rank.communicator({.timeout = 10s}));
        if (i % 2 == 0) rank.destroy_communicators();
        if (i % 2 == 1) {
          // A second communicator from the same bootstrap while the first exists.
          require_sum(rank.communicator({.timeout = 10s}));
          rank.destroy_communicators();
        }
      }
      expect(threads_of_this_process() == threads, "a thread was left behind");
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("messages of two communicators are matched separately") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& first = rank.communicator({.timeout = 10s});
    auto& second = rank.communicator({.timeout = 10s});
    for (int i = 0; i < 50; ++i) {
      require_sum(first);
      require_sum(second, 70000);
      // The same tag on both communicators, received in the opposite order.
      std::vector<std::int32_t> one(10, 1);
      std::vector<std::int32_t> two(10, 2);
      if (rank.rank() == 0) {
        first.send(std::span(one), 1);
        second.send(std::span(two), 1);
      } else if (rank.rank() == 1) {
        std::vector<std::int32_t> data(10);
        second.recv(std::span(data), 0);
        expect(data == two, "WRONG DATA: a message of the other communicator");
        first.recv(std::span(data), 0);
        expect(data == one, "WRONG DATA: a message of the other communicator");
      }
    }
    first.finalize();
    require_sum(second);
    second.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("an error in one communicator does not affect another") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& first = rank.communicator({.timeout = 10s});
    auto& second = rank.communicator({.timeout = 10s});
    std::vector<float> data(100);
    try {
      first.broadcast(std::span(data).first(rank.rank() == 0 ? 100 : 99), 0);
      first.finalize();
      expect(false, "nobody noticed");
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::mismatch, error.sentence());
    }
    for (int i = 0; i < 10; ++i) require_sum(second);
    second.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("moving a communicator keeps it working") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto first = Communicator::create(rank.bootstrap(), {.timeout = 10s});
    require_sum(first);
    auto second = std::move(first);
    require_sum(second);
    auto third = Communicator::create(rank.bootstrap(), {.timeout = 10s});
    third = std::move(second);
    require_sum(third);
    third.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a rank that destroys its communicator early is named to ranks that still wait for it") {
  struct Wait {
    const char* name;
    std::function<void(Communicator&)> call;
  };
  std::vector<float> data(std::size_t{1} << 20);
  const std::vector<Wait> waits{
      {"all_reduce", [&](Communicator& c) { c.all_reduce(in_place, std::span(data), sum); }},
      {"small all_reduce",
       [&](Communicator& c) { c.all_reduce(in_place, std::span(data).first(4), sum); }},
      {"barrier", [&](Communicator& c) { c.barrier(); }},
      {"recv",
       [&](Communicator& c) {
         c.recv(std::span(data), c.rank() == 0 ? c.size() - 1 : (c.rank() - 1));
       }},
      {"send",
       [&](Communicator& c) {
         c.send(std::span(data), c.rank() == 0 ? c.size() - 1 : (c.rank() - 1));
       }},
      {"finalize", [&](Communicator& c) { c.finalize(); }},
  };
  for (const auto& wait : waits) {
    for (const int size : {2, 3}) {
      CAPTURE(wait.name, size);
      const int leaver = size - 1;
      const auto reports = run_ranks(size, [&](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 8s});
        communicator.barrier();
        if (rank.rank() == leaver) {
          std::this_thread::sleep_for(50ms);
          rank.destroy_communicators();
          std::this_thread::sleep_for(300ms);
          return "left";
        }
        const auto begin = Clock::now();
        try {
          wait.call(communicator);
        } catch (const Error& error) {
          expect(Clock::now() - begin < 2s * time_factor(), "it took long: " + error.sentence());
          throw;
        }
        return "did not notice";
      });
      INFO(describe(reports));
      CHECK(reports[static_cast<std::size_t>(leaver)].text == "left");
      for (int rank = 0; rank < leaver; ++rank) {
        CAPTURE(rank);
        const auto& report = reports[static_cast<std::size_t>(rank)];
        CHECK(report.failure);
        if (!report.failure) continue;
        CHECK(report.failure->code == ErrorCode::mismatch);
        CHECK(report.failure->failed_ranks == std::vector{leaver});
        CHECK(report.failure->sentence.find(fmt::format("rank {} (", leaver)) != std::string::npos);
        CHECK(report.destruction < 1500ms * time_factor());
      }
    }
  }
}

TEST_CASE("a rank that leaves late delays the others' destructors by at most a second") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 8s});
    require_sum(communicator);
    if (rank.rank() == 1) std::this_thread::sleep_for(3s);
    return "done";
  });
  CHECK(errors_of(reports) == "");
  for (const auto& report : reports) CHECK(seconds(report.destruction) < 1.5 * time_factor());
}

TEST_CASE("the last message of a rank that leaves at once still arrives") {
  for (const std::size_t count : {std::size_t{10}, std::size_t{3} << 20}) {
    CAPTURE(count);
    const auto reports = run_ranks(2, [count](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 8s});
      communicator.barrier();
      Buffer<std::uint8_t> data(count);
      data.fill_from(0);
      if (rank.rank() == 0) {
        communicator.send(std::span(data.data(), count), 1);
        rank.destroy_communicators();
        return "left";
      }
      if (count < 1000) std::this_thread::sleep_for(200ms);
      data.fill_from(5);
      communicator.recv(std::span(data.data(), count), 0);
      data.require_from(0, "the last message");
      return "received";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("programs that a rank starts inherit no descriptors of tutti") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    require_sum(communicator);
    const auto own = descriptors("self");
    const auto count = [](const std::vector<std::string>& all, const char* kind) {
      return std::count_if(all.begin(), all.end(),
                           [kind](const auto& name) { return name.starts_with(kind); });
    };
    expect(count(own, "socket:") >= 2, "this test looks for sockets and there are none");
    const auto child = ::fork();
    if (child == 0) {
      ::execl("/bin/sleep", "sleep", "10", nullptr);
      ::_exit(127);
    }
    std::vector<std::string> inherited;
    for (int i = 0; i < 200; ++i) {
      std::this_thread::sleep_for(5ms);
      std::error_code error;
      const auto program =
          std::filesystem::read_symlink(fmt::format("/proc/{}/exe", child), error).string();
      if (program.find("fork") == std::string::npos &&
          program.find("process_") == std::string::npos) {
        inherited = descriptors(std::to_string(child));
        break;
      }
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    expect(count(inherited, "socket:") == 0 && count(inherited, "anon_inode:") == 0,
           fmt::format("a program that was started holds {} sockets and {} epoll or event objects",
                       count(inherited, "socket:"), count(inherited, "anon_inode:")));
    require_sum(communicator);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a child that a rank forks holds none of its sockets") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    Buffer<std::uint8_t> data(100000);
    data.fill_from(rank.rank());
    communicator.broadcast(std::span(data.data(), data.count()), 0);
    const auto sockets = [](const std::string& process) {
      const auto all = descriptors(process);
      return std::count_if(all.begin(), all.end(),
                           [](const auto& name) { return name.starts_with("socket:"); });
    };
    const auto own = sockets("self");
    expect(own >= 2, "this test looks for sockets and there are none");
    const auto child = ::fork();
    if (child == 0) {
      // Descriptors that it opens itself are not affected, even if the rank had one with that
      // number.
      const int mine = ::open("/dev/null", O_RDONLY);
      rank.destroy_communicators();
      ::_exit(::fcntl(mine, F_GETFD) >= 0 && sockets("self") == 0 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child holds sockets of the rank");
    expect(sockets("self") == own, "the rank has lost sockets");
    require_sum(communicator, 100000);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a child that a rank forks may exit without effect on the rank") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    require_sum(communicator);
    const auto child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    for (int i = 0; i < 10; ++i) require_sum(communicator, 100000);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a communicator that a forked child overwrites is destroyed without effect on the rank") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& first = rank.communicator({.timeout = 10s});
    auto& second = rank.communicator({.timeout = 10s});
    const auto child = ::fork();
    if (child == 0) {
      ::alarm(5);  // else it would wait for threads that it does not have
      first = std::move(second);
      auto& same = first;
      first = std::move(same);
      ::_exit(first.size() == 2 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    expect(status == 0, "the child ended with " + std::to_string(status));
    require_sum(first);
    require_sum(second);
    first = std::move(second);
    require_sum(first);
    first.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a log's sink may end the job") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    Communicator* whole = nullptr;
    int lines = 0;
    const auto sink = [&](LogLevel, const std::string&) {
      ++lines;
      if (whole != nullptr) whole->abort("the log said so");
    };
    auto& communicator =
        rank.communicator({.timeout = 10s, .log = sink, .log_level = LogLevel::info});
    if (rank.rank() == 0) whole = &communicator;
    lines = 0;
    try {
      // abort() writes a log line, and the sink calls abort() again.
      if (rank.rank() == 0) communicator.abort("enough");
      communicator.barrier();
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::aborted, error.sentence());
      expect(rank.rank() != 0 || lines == 1, std::to_string(lines) + " lines");
      return "aborted";
    }
    return "went on";
  });
  CHECK(errors_of(reports) == "");
  for (const auto& report : reports) CHECK(report.text == "aborted");
}

TEST_CASE("few descriptors: it works, or reports the limit") {
  const auto reports = run_ranks(16, [](Rank& rank) -> std::string {
    const rlimit few{24, 24};
    ::setrlimit(RLIMIT_NOFILE, &few);
    auto& communicator =
        rank.communicator({.timeout = 5s, .log = [](LogLevel, const std::string&) {}});
    require_sum(communicator);
    return "works";
  });
  INFO(describe(reports));
  for (const auto& report : reports) {
    CHECK(report.finished);
    CHECK(report.other_error == "");
    if (!report.failure) continue;
    CHECK(report.failure->sentence.find("ulimit -n") != std::string::npos);
  }
}

TEST_CASE("sixteen ranks that only broadcast have few sockets each") {
  const auto reports = run_ranks(16, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    Buffer<std::uint8_t> data(100000);
    data.fill_from(rank.rank());
    communicator.broadcast(std::span(data.data(), data.count()), 0);
    data.require_from(0, "broadcast");
    const auto open = descriptors("self");
    const auto sockets = std::count_if(
        open.begin(), open.end(), [](const auto& name) { return name.starts_with("socket:"); });
    communicator.finalize();
    return fmt::format("{}", sockets);
  });
  REQUIRE(errors_of(reports) == "");
  for (const auto& report : reports) {
    // 2 log2(16) - 1 control links, one or two listeners, the links of a chain or tree; not 2 x 15.
    CHECK(std::stol(report.text) <= 16);
  }
}

}  // namespace tutti::test
