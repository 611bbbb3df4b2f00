// Communicators with some of a communicator's ranks: split, duplicate, create_group.
#include <algorithm>
#include <numeric>
#include <thread>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

/// Sum of `mine` over the communicator.
int sum_of(Communicator& communicator, int mine) {
  std::vector<int> value{mine};
  communicator.all_reduce(in_place, value, sum);
  return value[0];
}

template <class Here, class There>
void in_two_threads(Here here, There there) {
  std::exception_ptr trouble_there;
  std::thread other([&] {
    try {
      there();
    } catch (...) {
      trouble_there = std::current_exception();
    }
  });
  here();
  other.join();
  if (trouble_there) std::rethrow_exception(trouble_there);
}

}  // namespace

TEST_CASE("split: each color sums over its members, ordered by key") {
  const auto reports = run_ranks(5, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    // {4, 2, 0} and {3, 1}: the keys reverse the order.
    auto part = world.split(rank.rank() % 2, -rank.rank());
    expect(part.has_value(), "no communicator");
    expect(part->size() == (rank.rank() % 2 == 0 ? 3 : 2), "the size is wrong");
    expect(part->rank() == (rank.rank() % 2 == 0 ? (4 - rank.rank()) / 2 : (3 - rank.rank()) / 2),
           "the rank is wrong");
    expect(sum_of(*part, rank.rank()) == (rank.rank() % 2 == 0 ? 6 : 4), "WRONG DATA");
    std::vector<int> from_first{rank.rank()};
    part->broadcast(from_first, 0);
    expect(from_first[0] == (rank.rank() % 2 == 0 ? 4 : 3), "WRONG DATA from the first");
    expect(part->local_rank() == world.local_rank(), "the local rank has changed");
    expect(part->info(part->rank()).pid == ::getpid(), "the rank's facts are another's");
    part->finalize();
    expect(sum_of(world, 1) == 5, "WRONG DATA in the world");
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("split without a color, by members, and of a group") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    auto part = world.split(rank.rank() == 2 ? std::nullopt : std::optional<int>(7));
    expect(part.has_value() == (rank.rank() != 2), "who is in the part is wrong");
    if (part) {
      auto smaller = part->split(part->rank() / 2);
      expect(sum_of(*smaller, rank.rank()) == (rank.rank() == 3 ? 3 : 1), "WRONG DATA");
    }
    if (rank.rank() == 0 || rank.rank() == 3) {
      const std::vector<int> members{3, 0};
      auto pair = world.create_group(members);
      expect(pair.rank() == (rank.rank() == 3 ? 0 : 1), "the order of members is lost");
      expect(sum_of(pair, rank.rank()) == 3, "WRONG DATA in the group");
    }
    const std::vector<int> alone{rank.rank()};
    auto single = world.create_group(alone);
    expect(sum_of(single, 5) == 5, "WRONG DATA alone");
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("traffic of two communicators of the same ranks never mixes") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 20s});
    auto twin = world.duplicate();
    auto other = world.duplicate();
    std::vector<int> a(100'000, rank.rank());
    std::vector<int> b(100'000, rank.rank() + 10);
    std::vector<int> c(10, rank.rank() + 100);
    // Started in a different order on each rank: only the order within a communicator matters.
    std::vector<Work> works(3);
    for (int i = 0; i < 3; ++i) {
      const auto which = static_cast<std::size_t>((i + rank.rank()) % 3);
      auto* const communicator = which == 0 ? &world : which == 1 ? &twin : &other;
      auto& data = which == 0 ? a : which == 1 ? b : c;
      works[which] = communicator->start_all_reduce(in_place, data, sum);
    }
    for (auto& work : works) work.wait();
    expect(a == std::vector<int>(100'000, 3), "WRONG DATA in the first");
    expect(b == std::vector<int>(100'000, 33), "WRONG DATA in the second");
    expect(c == std::vector<int>(10, 303), "WRONG DATA in the third");
    // A message without a receive must not block another communicator.
    const int next = (rank.rank() + 1) % 3;
    const int previous = (rank.rank() + 2) % 3;
    std::vector<int> out(1'000'000, rank.rank());
    std::vector<int> in(1'000'000);
    auto sent = twin.start_send(out, next);
    for (int i = 0; i < 20; ++i) expect(sum_of(other, 1) == 3, "WRONG DATA beside a message");
    twin.recv(in, previous);
    sent.wait();
    expect(in == std::vector<int>(1'000'000, previous), "WRONG DATA in the message");
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("two threads use two communicators at once") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 20s});
    auto twin = world.duplicate();
    const auto work = [&](Communicator& communicator, int salt) {
      for (int i = 0; i < 300; ++i) {
        std::vector<int> data(static_cast<std::size_t>(1 + i * 37 % 5'000), rank.rank() + salt);
        communicator.all_reduce(in_place, data, sum);
        expect(data.front() == 3 + 3 * salt && data.back() == data.front(), "WRONG DATA");
      }
    };
    in_two_threads([&] { work(world, 7); }, [&] { work(twin, 100); });
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("two threads send short messages on two communicators at once") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 20s});
    auto twin = world.duplicate();
    const int peer = 1 - rank.rank();
    const auto work = [&](Communicator& communicator, int salt) {
      for (int i = 0; i < 3000; ++i) {
        // Lengths below and above the eager limit.
        const auto count = static_cast<std::size_t>(1 + (i * 37 + salt) % 3000);
        const std::vector<int> out(count, 10 * i + rank.rank() + salt);
        std::vector<int> in(count);
        if (i % 3 == 0) {
          communicator.send_recv(out, peer, in, peer);
        } else if ((i % 3 == 1) == (rank.rank() == 0)) {
          communicator.send(out, peer);
          communicator.start_recv(in, peer).wait();
        } else {
          communicator.recv(in, peer);
          communicator.send(out, peer);
        }
        expect(in == std::vector<int>(count, 10 * i + peer + salt), "WRONG DATA");
      }
    };
    in_two_threads([&] { work(world, 7); }, [&] { work(twin, 100); });
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("different calls in a group are found, and all ranks of the job report it") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    auto part = world.split(rank.rank() / 2);
    if (rank.rank() >= 2) {
      std::vector<int> data(rank.rank() == 2 ? 10 : 11);
      part->all_reduce(in_place, data, sum);
      return "done";
    }
    part->barrier();
    world.barrier();
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->failed_ranks == std::vector<int>{2, 3});
    CHECK(report.failure->sentence.find("all_reduce of 11 i32") != std::string::npos);
  }
}

TEST_CASE("a missing member of a group is named, and so is a group of other members") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    const std::vector<int> members{0, 1};
    if (rank.rank() < 1) static_cast<void>(world.create_group(members, {.timeout = 500ms}));
    if (rank.rank() > 0) std::this_thread::sleep_for(1s);
    world.barrier();
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::timeout);
    CHECK(report.failure->failed_ranks == std::vector<int>{1});
  }
  const auto confused = run_ranks(3, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 2s});
    const std::vector<int> mine =
        rank.rank() == 0 ? std::vector{0, 1, 2} : std::vector{0, rank.rank()};
    static_cast<void>(world.create_group(mine));
    return "done";
  });
  REQUIRE(confused[0].failure);
  CHECK(confused[0].failure->code == ErrorCode::mismatch);
  CHECK(confused[0].failure->sentence.find("of 3") != std::string::npos);
  CHECK(confused[0].failure->sentence.find("rank 0 (") != std::string::npos);
  CHECK(confused[1].failure);
  CHECK(confused[2].failure);
}

TEST_CASE("members that form no group get a usage error") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    const auto error_of = [&](std::vector<int> members) -> std::string {
      try {
        static_cast<void>(world.create_group(members));
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::usage, "the code is wrong");
        return error.sentence();
      }
      return "accepted";
    };
    expect(error_of({0, 1, 2}).find("member 2") != std::string::npos, "out of range is accepted");
    expect(error_of({0, 0, 1}).find("rank 0 is named twice") != std::string::npos,
           "a member twice is accepted");
    expect(error_of({1 - rank.rank()}).find("is not in `members`") != std::string::npos,
           "a rank that is not a member makes a group");
    world.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE(
    "invalid arguments of a group's calls are reported in group ranks, with the job's ranks") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& world = rank.communicator({.timeout = 10s});
    auto part = world.split(rank.rank() / 2);
    if (rank.rank() < 2) {
      part->finalize();
      world.finalize();
      return "";
    }
    std::vector<int> values{1, 2};
    std::string reported;
    const auto refused = [&](const auto& call) {
      try {
        call();
        reported += "accepted\n";
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::usage, "the code is wrong");
        reported += error.sentence() + "\n";
      }
    };
    refused([&] { part->broadcast(values, 2); });
    refused([&] { part->send(values, 3); });
    refused([&] { part->recv(values, -1); });
    refused([&] { static_cast<void>(part->info(2)); });
    refused([&] { static_cast<void>(part->create_group(std::vector{0, 2})); });
    refused([&] { static_cast<void>(part->create_group(std::vector{0, 0})); });
    refused([&] { static_cast<void>(part->create_group(std::vector{1 - part->rank()})); });
    if (part->rank() == 1) refused([&] { part->gather(in_place, std::span(values), 0); });
    refused([&] { world.broadcast(values, 4); });
    part->finalize();
    world.finalize();
    return reported;
  });
  REQUIRE(errors_of(reports) == "");
  const std::string has = " is not a valid rank of this communicator, which has ranks 0 to ";
  const auto part = has + "1 (ranks 2 and 3 of the job)\n";
  CHECK(reports[3].text ==
        "root 2" + part + "receiver 3" + part + "sender -1" + part + "rank 2" + part + "member 2" +
            part +
            "rank 0 of this communicator (rank 2 of the job) is named twice among the members of a "
            "new group: name each once\n"
            "create_group: rank 1 of this communicator (rank 3 of the job) is not in `members`: "
            "only members may call it\n"
            "gather is in place on its root only: rank 1 of this communicator (rank 3 of the job) "
            "must pass a buffer instead of tutti::in_place\n"
            "root 4" +
            has + "3\n");
}

TEST_CASE("failures in a group are reported in the job's ranks, and say so") {
  // The part's ranks 0, 1 and 2 are the job's ranks 3, 2 and 1.
  const auto in_part = [](const auto& call) {
    return run_ranks(4, [&](Rank& rank) -> std::string {
      auto& world = rank.communicator({.timeout = 2s});
      auto part = world.split(rank.rank() == 0 ? 1 : 0, -rank.rank());
      std::vector<int> values(100'000);
      if (rank.rank() != 0) call(*part, values);
      world.barrier({.timeout = 20s});
      return "passed";
    });
  };
  const auto require_reported = [](const std::vector<Report>& reports, ErrorCode code,
                                   const std::vector<std::string>& parts) {
    for (const auto& report : reports) {
      INFO(describe(reports));
      REQUIRE(report.failure);
      CHECK(report.failure->code == code);
      for (const auto& part : parts)
        CHECK(report.failure->sentence.find(part) != std::string::npos);
    }
  };
  const auto roots = in_part([](Communicator& part, std::vector<int>& values) {
    part.broadcast(values, part.rank() == 0 ? 0 : 1);
    part.barrier();
  });
  require_reported(roots, ErrorCode::mismatch,
                   {"called broadcast of 100000 i32 from rank 3 of the job",
                    "called broadcast of 100000 i32 from rank 2 of the job"});
  const auto messages = in_part([](Communicator& part, std::vector<int>& values) {
    if (part.rank() == 0) part.send(std::span(values).first(3), 2);
    if (part.rank() == 2) part.recv(std::span(values).first(2), 0);
  });
  require_reported(
      messages, ErrorCode::mismatch,
      {"called send of 3 i32 to rank 1 of the job", "called recv of 2 i32 from rank 3 of the job"});
  const auto late = in_part([](Communicator& part, std::vector<int>& values) {
    if (part.rank() == 1) part.recv(values, 2);
  });
  require_reported(late, ErrorCode::timeout,
                   {"recv of 100000 i32 from rank 1 of the job (call ", "waiting for rank 1 ("});
  const auto circle = in_part([](Communicator& part, std::vector<int>& values) {
    if (part.rank() != 1) part.send(values, 2 - part.rank());
  });
  require_reported(
      circle, ErrorCode::timeout,
      {"deadlock: ranks wait for each other", "send of 100000 i32 to rank 3 of the job",
       "send of 100000 i32 to rank 1 of the job"});
}

TEST_CASE(
    "a thousand communicators one after another, and a group that outlives the job's "
    "communicator") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    std::optional<Communicator> last;
    {
      auto& world = rank.communicator({.timeout = 20s});
      for (int i = 0; i < 1000; ++i) last = world.split(i);
      rank.destroy_communicators();
    }
    expect(sum_of(*last, rank.rank() + 1) == 3, "WRONG DATA");
    last->finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
