// Stores of several ranks in one process, over loopback.
#include "store/tcp_store.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <optional>

#include "rendezvous/listener.hpp"
#include "support/catch.hpp"
#include "support/secret.hpp"

namespace tutti::store::test {

using namespace std::chrono_literals;

namespace {

constexpr auto long_enough = 30s;

/// A port that was free a moment ago.
std::uint16_t free_port() {
  for (const auto& listener : rendezvous::open_listeners({})) {
    if (listener.address.family() == AF_INET) return listener.address.port();
  }
  throw std::runtime_error("no listener on IPv4 loopback");
}

Bytes filled(std::size_t size, int seed) {
  return Bytes(size, static_cast<std::byte>(seed));
}

/// A job whose ranks are threads.
struct Job {
  int size = 4;
  std::uint16_t port = free_port();
  std::chrono::nanoseconds setup = long_enough;
  std::function<void(int rank, TcpStore::Settings&)> adjust;

  using Body = std::function<void(TcpStore&)>;

  [[nodiscard]] TcpStore::Settings settings(int rank) const {
    TcpStore::Settings result(tutti::test::known_secret());
    result.rank = rank;
    result.size = size;
    result.store_address = {.host = "127.0.0.1", .port = port, .source = "a test"};
    result.has_secret = true;
    if (adjust) adjust(rank, result);
    return result;
  }

  /// What each rank of `ranks` threw. `body` runs in all at the same time.
  [[nodiscard]] std::vector<std::optional<Error>> run(const std::vector<int>& ranks,
                                                      const Body& body) const {
    std::vector<std::future<std::optional<Error>>> running;
    for (const int rank : ranks) {
      running.push_back(std::async(std::launch::async, [&, rank]() -> std::optional<Error> {
        try {
          Log log(LogLevel::warning, [](LogLevel, const std::string&) {});
          TcpStore store(settings(rank), log, Deadline::after(setup));
          body(store);
          return std::nullopt;
        } catch (const Error& error) {
          return error;
        }
      }));
    }
    std::vector<std::optional<Error>> result;
    for (auto& rank : running) result.push_back(rank.get());
    return result;
  }

  [[nodiscard]] std::vector<int> all() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  }
};

std::string sentence(const std::optional<Error>& error) {
  return error ? error->sentence() : "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Deadline soon() {
  return Deadline::after(long_enough);
}

}  // namespace

TEST_CASE("an all-gather has every rank's bytes in rank order, of any length") {
  const Job job;
  // Results above the socket's buffers, and an empty contribution.
  const std::vector<std::size_t> lengths{5, max_contribution, 0, 1};
  std::vector<std::vector<Bytes>> results(4);
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    const auto rank = static_cast<std::size_t>(store.rank());
    results[rank] = store.all_gather(filled(lengths[rank], store.rank()), soon());
  });
  for (const auto& error : errors) CHECK(sentence(error) == "no error");
  for (const auto& result : results) {
    REQUIRE(result.size() == 4);
    for (int rank = 0; rank < 4; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      CHECK(result[i] == filled(lengths[i], rank));
    }
  }
}

TEST_CASE("each rank can be the root of a broadcast") {
  const Job job{.size = 3};
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    for (int root = 0; root < 3; ++root) {
      const auto mine = store.rank() == root ? filled(1000, root) : filled(3, 77);
      if (store.broadcast(mine, root, soon()) != filled(1000, root)) {
        throw Error(ErrorCode::mismatch, "other bytes");
      }
    }
    if (!store.broadcast({}, 1, soon()).empty()) throw Error(ErrorCode::mismatch, "other bytes");
  });
  for (const auto& error : errors) CHECK(sentence(error) == "no error");
}

TEST_CASE("no rank leaves a barrier before all have entered it") {
  const Job job;
  std::atomic<int> entered{0};
  std::atomic<bool> early{false};
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      store.barrier(soon());
      if (entered < 4 * round) early = true;
      store.barrier(soon());
    }
  });
  for (const auto& error : errors) CHECK(sentence(error) == "no error");
  CHECK_FALSE(early);
}

TEST_CASE("a job of one rank needs no socket") {
  Job job{.size = 1};
  job.adjust = [](int, TcpStore::Settings& settings) { settings.store_address.host = "nowhere"; };
  const auto errors = job.run({0}, [&](TcpStore& store) {
    CHECK(store.all_gather(filled(3, 1), soon()) == std::vector<Bytes>{filled(3, 1)});
    CHECK(store.broadcast(filled(3, 2), 0, soon()) == filled(3, 2));
    store.barrier(soon());
    CHECK(store.messages() == 0);
  });
  CHECK(sentence(errors[0]) == "no error");
}

TEST_CASE("an operation is one message to rank 0 and one back") {
  const Job job;
  std::array<std::size_t, 4> before{};
  std::array<std::size_t, 4> after{};
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    const auto rank = static_cast<std::size_t>(store.rank());
    before[rank] = store.messages();
    store.barrier(soon());
    after[rank] = store.messages();
  });
  for (const auto& error : errors) CHECK(sentence(error) == "no error");
  CHECK(after[0] - before[0] == 6);
  for (std::size_t rank = 1; rank < 4; ++rank) CHECK(after[rank] - before[rank] == 2);
}

TEST_CASE("a contribution above the maximum is refused where it is made") {
  const Job job{.size = 2};
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    if (store.rank() == 1)
      static_cast<void>(store.all_gather(filled(max_contribution + 1, 1), soon()));
  });
  REQUIRE(errors[1]);
  CHECK(errors[1]->code() == ErrorCode::usage);
  CHECK(errors[1]->sentence() ==
        "a bootstrap message of 262145 bytes is too long: the store takes 262144 at most");
}

TEST_CASE("a member that leaves is named on all other ranks") {
  const Job job;
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    if (store.rank() != 2) store.barrier(soon());
  });
  CHECK_FALSE(errors[2]);
  for (const std::size_t rank : {0, 1, 3}) {
    REQUIRE(errors[rank]);
    CHECK(errors[rank]->code() == ErrorCode::peer_lost);
    CHECK(errors[rank]->failed_ranks() == std::vector{2});
    CHECK(contains(errors[rank]->sentence(), "rank 2 ("));
    CHECK(contains(errors[rank]->sentence(), "ended during set-up"));
  }
}

TEST_CASE("members notice that rank 0 leaves") {
  const Job job{.size = 3};
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    if (store.rank() != 0) store.barrier(soon());
  });
  for (const std::size_t rank : {1, 2}) {
    REQUIRE(errors[rank]);
    CHECK(errors[rank]->code() == ErrorCode::peer_lost);
    CHECK(errors[rank]->failed_ranks() == std::vector{0});
  }
}

TEST_CASE("ranks that do not come by the deadline are named on all that did") {
  const Job job{.size = 5, .setup = 300ms};
  const auto errors = job.run({0, 1, 3}, [](TcpStore&) {});
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::timeout);
    CHECK(error->failed_ranks() == std::vector{2, 4});
    CHECK(contains(error->sentence(), "with 3 of 5 ranks; 2 missing: rank 2, rank 4;"));
  }
}

TEST_CASE("the earliest deadline of a step counts, and names who is late") {
  const Job job{.size = 3};
  std::promise<void> ended;
  const auto over = ended.get_future().share();
  const auto errors = job.run(job.all(), [&](TcpStore& store) {
    if (store.rank() == 2) {
      over.wait_for(long_enough);
    } else if (store.rank() == 1) {
      try {
        store.barrier(Deadline::after(200ms));
      } catch (...) {
        ended.set_value();
        throw;
      }
    } else {
      store.barrier(soon());
    }
  });
  CHECK_FALSE(errors[2]);
  for (const std::size_t rank : {0, 1}) {
    REQUIRE(errors[rank]);
    CHECK(errors[rank]->code() == ErrorCode::timeout);
    CHECK(errors[rank]->failed_ranks() == std::vector{2});
  }
}

TEST_CASE("without rank 0 a member names it, with the address") {
  const Job job{.size = 2, .setup = 200ms};
  const auto errors = job.run({1}, [](TcpStore&) {});
  REQUIRE(errors[0]);
  CHECK(errors[0]->code() == ErrorCode::timeout);
  CHECK(errors[0]->failed_ranks() == std::vector{0});
  CHECK(contains(errors[0]->sentence(), "127.0.0.1:" + std::to_string(job.port)));
}

TEST_CASE("a rank with another secret does not join") {
  Job job{.size = 2, .setup = 300ms};
  job.adjust = [](int rank, TcpStore::Settings& settings) {
    if (rank == 1) settings.secret = tutti::test::known_secret(1);
  };
  const auto errors = job.run(job.all(), [](TcpStore&) {});
  REQUIRE(errors[0]);
  CHECK(errors[0]->code() == ErrorCode::timeout);
  CHECK(errors[0]->failed_ranks() == std::vector{1});
  REQUIRE(errors[1]);
  CHECK(errors[1]->code() == ErrorCode::timeout);
  CHECK(contains(errors[1]->sentence(), "start rank 0 there, with the same secret"));
}

TEST_CASE("ranks that disagree on their number hear both numbers") {
  Job job{.size = 3};
  job.adjust = [](int rank, TcpStore::Settings& settings) {
    if (rank == 1) settings.size = 4;
  };
  const auto errors = job.run({0, 1}, [](TcpStore&) {});
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::mismatch);
    CHECK(error->failed_ranks() == std::vector{0, 1});
    CHECK(contains(error->sentence(), "was started with 4 ranks and rank 0 with 3"));
  }
}

TEST_CASE("ranks at different steps of set-up are a mismatch on both") {
  const Job job{.size = 2};
  const auto errors = job.run(job.all(), [](TcpStore& store) {
    if (store.rank() == 0) {
      store.barrier(soon());
    } else {
      static_cast<void>(store.all_gather({}, soon()));
    }
  });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::mismatch);
    CHECK(contains(error->sentence(), "is at another step of set-up than rank 0"));
  }
}

TEST_CASE("without a secret the store serves loopback only") {
  Job job{.size = 2};
  job.adjust = [](int, TcpStore::Settings& settings) {
    settings.has_secret = false;
    settings.store_address.host = "192.0.2.1";  // of no host: refused before it is used
  };
  const auto refused = job.run({1}, [](TcpStore&) {});
  REQUIRE(refused[0]);
  CHECK(refused[0]->code() == ErrorCode::usage);
  CHECK(contains(refused[0]->sentence(), "can be reached from other hosts (192.0.2.1:"));

  job.adjust = [](int, TcpStore::Settings& settings) {
    settings.has_secret = false;
    settings.secret = open_secret("one job");
  };
  const auto served = job.run(job.all(), [](TcpStore& store) { store.barrier(soon()); });
  for (const auto& error : served) CHECK(sentence(error) == "no error");
}

}  // namespace tutti::store::test
