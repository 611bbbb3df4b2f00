// Rendezvous, and the resulting properties of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "pattern.hpp"
#include "support/catch.hpp"

namespace tutti::test {

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
      // Whole identities are compared, not a hash or the first label.
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
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("ranks of one host have local ranks in their order, whatever the environment claims") {
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
  REQUIRE(errors_of(reports) == "");
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

TEST_CASE("a rank that is missing in set-up: an error soon after the deadline, with the phase") {
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
      CHECK(seconds(report.ended - begin) < 2.0 * time_factor());
    }
  }
}

TEST_CASE("no rank leaves set-up while another is still in the bootstrap") {
  // A bootstrap may need progress of all ranks, as MPI does. A rank that continues and waits
  // elsewhere would make the others hang in the bootstrap.
  constexpr int size = 4;
  Job job(size, [](Rank& rank) -> std::string {
    rank.bootstrap().before = [&rank](int exchange) {
      if (exchange == 3 && rank.rank() == 2) std::this_thread::sleep_for(500ms);
      if (exchange == 3) rank.stamp();
    };
    rank.communicator({.timeout = 10s});
    return fmt::format("{}", Clock::now().time_since_epoch().count());
  });
  const auto reports = job.finish();
  REQUIRE(errors_of(reports) == "");
  for (const auto& report : reports) {
    const Clock::time_point left{Clock::duration(std::stoll(report.text))};
    for (int rank = 0; rank < size; ++rank) CHECK(left >= job.stamped(rank));
  }
}

TEST_CASE("set-up waits for a late rank") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    if (rank.rank() == 1) std::this_thread::sleep_for(700ms);
    require_sum(rank.communicator({.timeout = 5s}));
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
