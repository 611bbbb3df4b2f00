// The choice between two copies through shared memory and the kernel's single copy.
#include "base/single_copy_choice.hpp"

#include <algorithm>
#include <vector>

#include "support/catch.hpp"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr SingleCopyChoice::Kind whole{Operation::all_gather, mebibyte};

/// The ranks of a communicator, which all ask and measure in each call.
struct Ranks {
  std::vector<SingleCopyChoice> choices;
  std::vector<SingleCopyChoice::Board> memory;
  std::vector<SingleCopyChoice::Board*> boards;

  explicit Ranks(std::size_t count) : choices(count), memory(count) {
    for (auto& board : memory) boards.push_back(&board);
  }
  /// What a rank does in a call, from the moment when all ranks could be in it.
  struct Times {
    std::chrono::nanoseconds late;
    std::chrono::nanoseconds shared;  ///< when it is done
    std::chrono::nanoseconds single;
  };
  /// Number of the next `calls` calls that used single copy.
  int run(int calls, const std::vector<Times>& times) {
    int count = 0;
    for (int call = 0; call < calls; ++call) {
      const bool single = choices[0].next(kind, boards, untimed_calls);
      for (std::size_t rank = 1; rank < choices.size(); ++rank) {
        CHECK(choices[rank].next(kind, boards, untimed_calls) == single);
      }
      now += 1s;
      for (std::size_t rank = 0; rank < choices.size(); ++rank) {
        const auto end = single ? times[rank].single : times[rank].shared;
        choices[rank].took(kind, now + times[rank].late, now + end, memory[rank]);
      }
      count += single ? 1 : 0;
    }
    return count;
  }
  SingleCopyChoice::Time now{};
  std::size_t untimed_calls = 0;
  SingleCopyChoice::Kind kind = whole;
};

/// Number of the next `offers` offers that are read, and that end with a pause.
struct Answers {
  int read = 0;
  int pauses = 0;
};
Answers answer(OfferChoice& choice, int offers, std::chrono::nanoseconds shared,
               std::chrono::nanoseconds single) {
  Answers all;
  for (int offer = 0; offer < offers; ++offer) {
    const auto one = choice.next(mebibyte);
    choice.took(mebibyte, one.reads, one.reads ? single : shared);
    all.read += one.reads ? 1 : 0;
    all.pauses += one.pauses ? 1 : 0;
  }
  return all;
}

}  // namespace

TEST_CASE("only operations that move data without reducing it are covered") {
  for (const auto operation : {Operation::broadcast, Operation::fan_out, Operation::all_gather,
                               Operation::gather, Operation::scatter, Operation::all_to_all}) {
    CHECK(SingleCopyChoice::covers(operation));
  }
  for (const auto operation : {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter,
                               Operation::barrier, Operation::send, Operation::all_to_all_v}) {
    CHECK(!SingleCopyChoice::covers(operation));
  }
}

TEST_CASE("single copy is used if it is faster, and seldom otherwise") {
  Ranks faster(1);
  CHECK(faster.run(8, {{0ms, 2ms, 1ms}}) == 2);
  CHECK(faster.run(10'000, {{0ms, 2ms, 1ms}}) > 9'900);
  Ranks slower(1);
  CHECK(slower.run(8, {{0ms, 1ms, 2ms}}) == 2);
  const int tried = slower.run(10'000, {{0ms, 1ms, 2ms}});
  CHECK(tried > 0);
  CHECK(tried < 50);  // with the other kinds of copies below one in a hundred
}

TEST_CASE("a call lasts from its last rank's begin to its last rank's end") {
  // A root is done early with its copies; only its readers see a difference.
  const std::vector<Ranks::Times> better{{0ms, 1ms, 3ms}, {0ms, 5ms, 3ms}};
  Ranks ranks(2);
  ranks.run(24, better);
  CHECK(ranks.run(72, better) == 72);
  // A reader that is late finds copies, and takes little time: the call does not.
  const std::vector<Ranks::Times> worse{{0ms, 4ms, 6ms}, {3ms, 5ms, 6ms}};
  Ranks others(2);
  others.run(24, worse);
  CHECK(others.run(72, worse) == 0);
}

TEST_CASE("a trial counts once all ranks have posted all its calls") {
  Ranks ranks(2);
  ranks.run(24, {{0ms, 1ms, 2ms}, {0ms, 1ms, 2ms}});
  // The other rank is behind: the latest trial says nothing yet.
  auto& first = ranks.choices[0];
  for (int call = 0; call < 80; ++call) {
    static_cast<void>(first.next(whole, ranks.boards, 0));
    first.took(whole, ranks.now, ranks.now, ranks.memory[0]);
  }
  CHECK(!first.next(whole, ranks.boards, 0));
}

TEST_CASE("what the first calls show about single copy does not last") {
  Ranks ranks(2);
  ranks.run(24, {{0ms, 4ms, 2ms}, {0ms, 4ms, 2ms}});
  CHECK(ranks.run(72, {{0ms, 4ms, 2ms}, {0ms, 4ms, 2ms}}) == 72);
  ranks.run(8, {{0ms, 1ms, 2ms}, {0ms, 1ms, 2ms}});
  CHECK(ranks.run(88, {{0ms, 1ms, 2ms}, {0ms, 1ms, 2ms}}) == 0);

  OfferChoice offers;
  answer(offers, 8, 4ms, 2ms);
  CHECK(answer(offers, 88, 4ms, 2ms).read == 84);
  answer(offers, 4, 1ms, 2ms);
  CHECK(answer(offers, 88, 1ms, 2ms).pauses == 22);
}

TEST_CASE("the first use of shared memory is not timed") {
  Ranks ranks(2);
  ranks.untimed_calls = 32;
  CHECK(ranks.run(32, {{0ms, 9ms, 2ms}, {0ms, 9ms, 2ms}}) == 0);
  CHECK(ranks.run(8, {{0ms, 1ms, 2ms}, {0ms, 1ms, 2ms}}) == 2);
  CHECK(ranks.run(8, {{0ms, 1ms, 2ms}, {0ms, 1ms, 2ms}}) == 0);
}

TEST_CASE("of long calls fewer are trials of single copy") {
  Ranks ranks(2);
  ranks.kind.bytes = 16 * mebibyte;
  ranks.run(8, {{0ms, 4ms, 2ms}, {0ms, 4ms, 2ms}});
  CHECK(ranks.run(88, {{0ms, 4ms, 2ms}, {0ms, 4ms, 2ms}}) == 88);
}

TEST_CASE("a way that becomes the faster one is found") {
  Ranks ranks(2);
  ranks.run(100, {{0ms, 1ms, 2ms}, {0ms, 1ms, 2ms}});
  ranks.run(1'000, {{0ms, 4ms, 2ms}, {0ms, 4ms, 2ms}});
  CHECK(ranks.run(400, {{0ms, 4ms, 2ms}, {0ms, 4ms, 2ms}}) == 400);
}

TEST_CASE("sizes are told apart, from the smallest to the largest") {
  CHECK(single_copy_size_class(1) == 0);
  CHECK(single_copy_size_class(min_single_copy_bytes) == 0);
  CHECK(single_copy_size_class(2 * min_single_copy_bytes - 1) == 0);
  CHECK(single_copy_size_class(2 * min_single_copy_bytes) == 1);
  CHECK(single_copy_size_class(~std::size_t{0}) == single_copy_sizes - 1);
}

TEST_CASE("a receiver reads offers if that is faster, and else lets the sender pause") {
  OfferChoice choice;
  CHECK(answer(choice, 8, 2ms, 1ms).read == 4);
  const auto faster = answer(choice, 10'000, 2ms, 1ms);
  CHECK(faster.read > 9'900);
  CHECK(faster.pauses == 0);

  OfferChoice other;
  answer(other, 8, 1ms, 2ms);
  // In turns of four offers, two of which are read; a pause follows each turn.
  const auto slower = answer(other, 40, 1ms, 2ms);
  CHECK(slower.read == 20);
  CHECK(slower.pauses == 10);
  CHECK(2.0 / (4 + OfferChoice::paused_messages) < 0.01);
  // It becomes the faster way.
  answer(other, 16, 4ms, 2ms);
  CHECK(answer(other, 100, 4ms, 2ms).pauses == 0);
  CHECK(other.expects_offer(mebibyte));
  CHECK(!other.expects_offer(mebibyte / 4));
}

TEST_CASE("some slow messages between trials do not change the choice") {
  OfferChoice reads;
  answer(reads, 12, 2ms, 1ms);
  CHECK(answer(reads, 8, 2ms, 9ms).read == 8);
  CHECK(answer(reads, 40, 2ms, 1ms).read == 40);
}

}  // namespace tutti::test
