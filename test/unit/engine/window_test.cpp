// Which steps of a schedule are in flight together, over links that move nothing by themselves.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "channels.hpp"
#include "engine/execution.hpp"
#include "engine/reduce.hpp"
#include "support/catch.hpp"

namespace tutti::engine::test {

namespace {

/// One rank whose links never move data: started steps stay in flight.
class StillLinks final : public transport::Links {
 public:
  std::vector<transport::SendRequest*> sends;
  std::vector<transport::RecvRequest*> receives;

  void post(transport::SendRequest& request) override { sends.push_back(&request); }
  void post(transport::RecvRequest& request) override { receives.push_back(&request); }
  void finish_collective(const transport::StreamKey&) override {}
  void finish_sent(const transport::StreamKey&, int) override {}
  void finish_received(const transport::StreamKey&, int) override {}
  bool progress(std::chrono::nanoseconds) override { return false; }
  [[nodiscard]] transport::LinkState state(int, bool) const override { return {}; }
};

using algorithm::Buffer;
using algorithm::Region;
using algorithm::StepKind;
using algorithm::StepPattern;

StepPattern step(StepKind kind, int peer, Region region, Buffer from = Buffer::output,
                 std::int64_t from_shift = 0) {
  return {.kind = kind,
          .peer = peer,
          .to = Buffer::output,
          .from = from,
          .offset = {region.begin, 0, 0},
          .length = region.length(),
          .end = {region.end, 0, 0},
          .from_shift = {from_shift}};
}

struct OneRank {
  algorithm::Schedule schedule;
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  transport::CallContext call{.key = {.sequence = 1}};
  std::vector<int> world{0, 1, 2, 3, 4, 5, 6, 7};
  StillLinks links;
  Execution execution;

  explicit OneRank(std::vector<StepPattern> steps, bool in_place = false,
                   PublishedChunks* chunks = nullptr)
      : schedule{.algorithm = "by hand", .loops = {{.steps = std::move(steps)}}},
        input(100, std::byte{1}),
        output(100, std::byte{2}),
        execution(schedule,
                  Memory{.input = in_place ? output.data() : input.data(),
                         .output = output.data(),
                         .reduce = reduce_function(Type::u8, Operator::sum)},
                  Execution::Names{call, world}, links, chunks) {
    execution.advance();
  }
};

void finish(transport::SendRequest& request) {
  request.sent = request.from.size();
}
void finish(transport::RecvRequest& request) {
  request.received = request.to.size();
}

}  // namespace

TEST_CASE("independent steps are in flight together") {
  OneRank rank({step(StepKind::recv, 1, {0, 10}), step(StepKind::send, 2, {10, 20}),
                step(StepKind::recv, 3, {20, 30}), step(StepKind::send, 1, {30, 40})});
  CHECK(rank.links.sends.size() == 2);
  CHECK(rank.links.receives.size() == 2);
}

TEST_CASE("a step waits for the earlier one whose data it reads or overwrites") {
  SECTION("read after write") {
    OneRank rank({step(StepKind::recv, 1, {0, 10}), step(StepKind::send, 2, {9, 20})});
    CHECK(rank.links.sends.empty());
    finish(*rank.links.receives[0]);
    CHECK(!rank.execution.advance());
    CHECK(rank.links.sends.size() == 1);
  }
  SECTION("write after read") {
    OneRank rank({step(StepKind::send, 1, {0, 10}), step(StepKind::recv, 2, {9, 20})});
    CHECK(rank.links.receives.empty());
    finish(*rank.links.sends[0]);
    CHECK(!rank.execution.advance());
    CHECK(rank.links.receives.size() == 1);
  }
  SECTION("write after write") {
    OneRank rank({step(StepKind::recv, 1, {0, 10}), step(StepKind::recv, 2, {9, 20})});
    CHECK(rank.links.receives.size() == 1);
  }
  SECTION("read after read needs no waiting") {
    OneRank rank({step(StepKind::send, 1, {0, 10}), step(StepKind::send, 2, {0, 10})});
    CHECK(rank.links.sends.size() == 2);
  }
  SECTION("a reduction reads both its sources") {
    OneRank rank({step(StepKind::recv, 1, {0, 10}),
                  step(StepKind::reduce, -1, {50, 60}, Buffer::output, -50)});
    CHECK(rank.output[50] == std::byte{2});
    finish(*rank.links.receives[0]);
    CHECK(rank.execution.advance());
    CHECK(rank.output[50] == std::byte{4});
  }
}

TEST_CASE("input aliases output in place only") {
  const std::vector<StepPattern> steps{step(StepKind::send, 1, {0, 10}, Buffer::input),
                                       step(StepKind::recv, 2, {0, 10})};
  OneRank elsewhere(steps, false);
  CHECK(elsewhere.links.receives.size() == 1);
  CHECK(elsewhere.links.sends[0]->from.data() == elsewhere.input.data());
  OneRank in_place(steps, true);
  CHECK(in_place.links.receives.empty());
  CHECK(in_place.links.sends[0]->from.data() == in_place.output.data());
}

TEST_CASE("steps with one peer start in their order") {
  // The second of three waits for data, so the third waits, too.
  OneRank rank({step(StepKind::recv, 2, {0, 10}), step(StepKind::send, 1, {0, 10}),
                step(StepKind::send, 1, {50, 60}), step(StepKind::send, 3, {60, 70})});
  REQUIRE(rank.links.sends.size() == 1);
  CHECK(rank.links.sends[0]->peer == 3);
  finish(*rank.links.receives[0]);
  rank.execution.advance();
  REQUIRE(rank.links.sends.size() == 3);
  CHECK(rank.links.sends[1]->from.data() == rank.output.data());
  CHECK(rank.links.sends[2]->from.data() == rank.output.data() + 50);
}

TEST_CASE("at most a window of steps is in flight") {
  std::vector<StepPattern> steps;
  for (int i = 0; i < 100; ++i) steps.push_back(step(StepKind::send, 1, {i, i + 1}));
  OneRank rank(steps);
  CHECK(rank.links.sends.size() == Execution::window);
  finish(*rank.links.sends[1]);  // not the oldest
  rank.execution.advance();
  CHECK(rank.links.sends.size() == Execution::window);
  finish(*rank.links.sends[0]);
  rank.execution.advance();
  CHECK(rank.links.sends.size() == Execution::window + 2);
}

TEST_CASE("a schedule reports the peers that it waits for") {
  OneRank rank({step(StepKind::recv, 1, {0, 10}), step(StepKind::send, 2, {5, 20}),
                step(StepKind::send, 3, {30, 40})});
  std::vector<Awaited> awaited;
  rank.execution.add_awaited(awaited);
  REQUIRE(awaited.size() == 2);  // rank 2 is not awaited: its step has not started
  CHECK(awaited[0].peer == 1);
  CHECK(awaited[0].receiving);
  CHECK(awaited[1].peer == 3);
  CHECK(!awaited[1].receiving);
}

TEST_CASE("steps behind a read of published data start when it is done, other steps before") {
  Channels channels(3);
  CallOfAll call(channels, 3, 1);
  const std::array peers{Channels::rank_of(1), Channels::rank_of(2)};
  OneRank rank({step(StepKind::publish, -1, {0, 0}), step(StepKind::read, peers[0], {0, 10}),
                step(StepKind::read, peers[1], {10, 20}), step(StepKind::send, 2, {0, 10}),
                step(StepKind::send, 4, {10, 20}), step(StepKind::send, 6, {30, 40}),
                step(StepKind::release, -1, {0, 0})},
               false, &call.of(0));
  const auto awaited = [&] {
    std::vector<Awaited> all;
    rank.execution.add_awaited(all);
    return all;
  };
  const auto publish = [&](int member) {
    auto* const to = call.of(member).try_open(0, 0, 20);
    REQUIRE(to != nullptr);
    std::fill_n(to, 20, static_cast<std::byte>(member));
    call.of(member).publish(0);
  };
  REQUIRE(rank.links.sends.size() == 1);
  CHECK(rank.links.sends[0]->peer == 6);
  REQUIRE(awaited().size() == 3);
  for (const std::size_t i : {0U, 1U}) {
    CHECK(awaited()[i].peer == peers[i]);
    CHECK(awaited()[i].in_shared_memory);
  }
  CHECK(!awaited()[2].in_shared_memory);
  CHECK(!rank.execution.advance());

  // The second of them first.
  publish(2);
  CHECK(!rank.execution.advance());
  CHECK(rank.output[10] == std::byte{2});
  CHECK(rank.output[19] == std::byte{2});
  REQUIRE(rank.links.sends.size() == 2);
  CHECK(rank.links.sends[1]->peer == 4);
  CHECK(awaited()[0].peer == peers[0]);
  CHECK(!awaited()[1].in_shared_memory);

  publish(1);
  CHECK(!rank.execution.advance());
  CHECK(rank.output[0] == std::byte{1});
  REQUIRE(rank.links.sends.size() == 3);
  CHECK(rank.links.sends[2]->peer == 2);
  for (auto* const send : rank.links.sends) finish(*send);
  CHECK(rank.execution.advance());
  CHECK(awaited().empty());
}

TEST_CASE("a publish that waits for room names the rank that has not released, and then goes on") {
  Channels channels(3);
  constexpr std::size_t chunks = transport::slots_in_flight + 1;
  CallOfAll call(channels, 3, chunks);
  std::vector<StepPattern> steps(chunks, step(StepKind::publish, -1, {0, 10}));
  steps.push_back(step(StepKind::send, 2, {20, 30}));
  OneRank rank(steps, false, &call.of(0));
  CHECK(rank.links.sends.size() == 1);
  call.of(2).release(0);
  CHECK(!rank.execution.advance());
  std::vector<Awaited> awaited;
  rank.execution.add_awaited(awaited);
  REQUIRE(awaited.size() == 2);
  CHECK(awaited[0].peer == Channels::rank_of(1));
  CHECK(awaited[0].in_shared_memory);
  call.of(1).release(0);
  finish(*rank.links.sends[0]);
  CHECK(rank.execution.advance());
}

TEST_CASE("an empty schedule is done at once") {
  OneRank rank({});
  CHECK(rank.execution.advance());
  std::vector<Awaited> awaited;
  rank.execution.add_awaited(awaited);
  CHECK(awaited.empty());
}

}  // namespace tutti::engine::test
