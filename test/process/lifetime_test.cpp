// How communicators come and go, and what they know of their ranks.
#include <dirent.h>
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

void require_sum(Communicator& communicator, std::size_t count = 1000) {
  std::vector<std::int32_t> data(count, communicator.rank() + 1);
  communicator.all_reduce(in_place, std::span(data), sum);
  const int due = communicator.size() * (communicator.size() + 1) / 2;
  for (const auto value : data) expect(value == due, "WRONG DATA in all_reduce");
}

std::size_t threads_of_this_process() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

/// The kinds of open descriptors, by their /proc names; the directory that is read included.
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
  // In this process: the test program's own thread count must be one again afterwards.
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
  CHECK(threads_of_this_process() == 1);
}

TEST_CASE("two communicators in a row, and many") {
  for (const int size : {2, 4}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      for (int i = 0; i < 20; ++i) {
        require_sum(rank.communicator({.timeout = 10s}));
        if (i % 2 == 0) rank.destroy_communicators();
        if (i % 2 == 1) {
          // The next one meets while this one is still alive.
          require_sum(rank.communicator({.timeout = 10s}));
          rank.destroy_communicators();
        }
      }
      expect(threads_of_this_process() == 1, "a thread was left behind");
      return "done";
    });
    CHECK(trouble(reports) == "");
  }
}

TEST_CASE("two communicators alive at once do not mix up their messages") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& first = rank.communicator({.timeout = 10s});
    auto& second = rank.communicator({.timeout = 10s});
    for (int i = 0; i < 50; ++i) {
      require_sum(first);
      require_sum(second, 70000);
      // The same tag on both, received in the other order.
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
  CHECK(trouble(reports) == "");
}

TEST_CASE("an error in one communicator leaves the other alone") {
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
  CHECK(trouble(reports) == "");
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
  CHECK(trouble(reports) == "");
}

TEST_CASE("who destroys its communicator early is named to those who still wait for it") {
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
          expect(Clock::now() - begin < 2s * patience(), "it took long: " + error.sentence());
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
        CHECK(report.failure->culprits == std::vector{leaver});
        CHECK(report.failure->sentence.find(fmt::format("rank {} (", leaver)) != std::string::npos);
        CHECK(report.destruction < 1500ms * patience());
      }
    }
  }
}

TEST_CASE("a rank that is slow to leave delays the others' destructors by a second at most") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 8s});
    require_sum(communicator);
    if (rank.rank() == 1) std::this_thread::sleep_for(3s);
    return "done";
  });
  CHECK(trouble(reports) == "");
  for (const auto& report : reports) CHECK(seconds(report.destruction) < 1.5 * patience());
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
    CHECK(trouble(reports) == "");
  }
}

TEST_CASE("hosts made by TUTTI_HOST_ID: local ranks, and right data between them") {
  struct Layout {
    std::vector<const char*> host;
    std::vector<int> local;
    int hosts;
  };
  const std::vector<Layout> layouts{
      {{"east", "east", "west", "west"}, {0, 1, 0, 1}, 2},
      {{"east", "west", "east", "west"}, {0, 0, 1, 1}, 2},
      {{"a", "b", "c", "a", "a"}, {0, 0, 0, 1, 2}, 3},
      // Whole identities are compared: neither a hash nor a first label.
      {{"compute00000R", "compute000011", "gpu.a", "gpu.b"}, {0, 0, 0, 0}, 4},
  };
  for (const auto& layout : layouts) {
    const int size = static_cast<int>(layout.host.size());
    CAPTURE(size, layout.hosts);
    const auto reports = run_ranks(size, [&](Rank& rank) -> std::string {
      const auto index = static_cast<std::size_t>(rank.rank());
      ::setenv("TUTTI_HOST_ID", layout.host[index], 1);
      auto& communicator = rank.communicator({.timeout = 10s});
      expect(communicator.local_rank() == layout.local[index],
             fmt::format("local rank {}", communicator.local_rank()));
      expect(communicator.host_count() == layout.hosts, "the number of hosts");
      const auto same =
          std::count_if(layout.host.begin(), layout.host.end(),
                        [&](const char* host) { return std::string(host) == layout.host[index]; });
      expect(communicator.local_size() == same, "the local size");
      for (int peer = 0; peer < rank.size(); ++peer) {
        const auto& info = communicator.info(peer);
        expect(info.rank == peer && info.host == layout.host[static_cast<std::size_t>(peer)] &&
                   info.local_rank == layout.local[static_cast<std::size_t>(peer)],
               "what is known of a peer");
      }
      expect(communicator.info(rank.rank()).pid == ::getpid(), "the own pid");
      require_sum(communicator, 5);
      require_sum(communicator, 300001);
      for (int root = 0; root < rank.size(); ++root) {
        Buffer<float> data(100003);
        data.fill_from(rank.rank());
        communicator.broadcast(std::span(data.data(), data.count()), root);
        data.require_from(root, "broadcast");
      }
      communicator.finalize();
      return "done";
    });
    CHECK(trouble(reports) == "");
  }
}

TEST_CASE("ranks of one host have local ranks in their order whatever the environment says") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "2", 1);
    std::string warnings;
    auto& communicator =
        rank.communicator({.timeout = 10s, .log = [&](LogLevel level, const std::string& text) {
                             if (level == LogLevel::warning) warnings += text + "\n";
                           }});
    expect(communicator.local_rank() == rank.rank(), "the local rank");
    require_sum(communicator);
    communicator.finalize();
    rank.destroy_communicators();
    return warnings;
  });
  REQUIRE(trouble(reports) == "");
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const auto& warnings = reports[static_cast<std::size_t>(rank)].text;
    if (rank == 2) {
      CHECK(warnings == "");
    } else {
      CHECK(warnings.find("OMPI_COMM_WORLD_LOCAL_RANK=2") != std::string::npos);
      CHECK(warnings.find(fmt::format("local rank {}", rank)) != std::string::npos);
    }
  }
}

TEST_CASE("a setting that differs on one rank is named with both values on all ranks") {
  struct Setting {
    const char* variable;
    const char* value;
    const char* shown;
    const char* usual;
  };
  for (const auto& setting : {Setting{"TUTTI_CHUNK", "128KiB", "131072", "\"\""},
                              Setting{"TUTTI_EAGER", "1KiB", "1024", "16384"},
                              Setting{"TUTTI_ALGORITHM", "ring", "ring", "\"\""}}) {
    for (const int size : {2, 4}) {
      for (const int deviant : {0, size - 1}) {
        CAPTURE(setting.variable, size, deviant);
        const auto reports = run_ranks(size, [&](Rank& rank) -> std::string {
          if (rank.rank() == deviant) ::setenv(setting.variable, setting.value, 1);
          rank.communicator({.timeout = 5s});
          return "set up";
        });
        INFO(describe(reports));
        for (const auto& report : reports) {
          CHECK(report.failure);
          if (!report.failure) continue;
          CHECK(report.failure->code == ErrorCode::mismatch);
          for (const auto* word : {setting.variable, setting.shown, setting.usual}) {
            CAPTURE(word);
            CHECK(report.failure->sentence.find(word) != std::string::npos);
          }
        }
      }
    }
  }
}

TEST_CASE("a rank that never comes to set-up: an error soon after the deadline, with the phase") {
  for (const int missing : {0, 2}) {
    CAPTURE(missing);
    const auto begin = Clock::now();
    const auto reports = run_ranks(3, [missing](Rank& rank) -> std::string {
      if (rank.rank() == missing) return "stayed away";
      rank.communicator({.timeout = 1s});
      return "set up without it";
    });
    INFO(describe(reports));
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == missing) continue;
      const auto& report = reports[static_cast<std::size_t>(rank)];
      REQUIRE(report.failure);
      CHECK(report.failure->code == ErrorCode::timeout);
      CHECK(report.failure->sentence.find("set-up") != std::string::npos);
      CHECK(seconds(report.ended - begin) > 0.9);
      CHECK(seconds(report.ended - begin) < 2.0 * patience());
    }
  }
}

TEST_CASE("a rank that comes late to set-up is waited for") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    if (rank.rank() == 1) std::this_thread::sleep_for(700ms);
    require_sum(rank.communicator({.timeout = 5s}));
    return "done";
  });
  CHECK(trouble(reports) == "");
}

TEST_CASE("programs that a rank starts inherit nothing of ours") {
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
  CHECK(trouble(reports) == "");
}

TEST_CASE("a child that a rank forks may end without harm to the rank") {
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
  CHECK(trouble(reports) == "");
}

TEST_CASE("few descriptors: it works, or says what the limit is") {
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
    CHECK(report.complaint == "");
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
  REQUIRE(trouble(reports) == "");
  for (const auto& report : reports) {
    // 2 log2(16) - 1 control links, a listener or two, the links of a chain or tree; not 2 x 15.
    CHECK(std::stol(report.text) <= 16);
  }
}

}  // namespace tutti::test
