// Bootstrap of forked ranks through shared memory.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "support/fork_board.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {

int ForkBootstrap::size() const {
  return board_.size;
}

std::vector<Bytes> ForkBootstrap::exchange(const Bytes& mine, Deadline deadline) {
  const auto round = ++round_;
  if (before) before(static_cast<int>(round));
  expect(mine.size() <= message_space, "a bootstrap message is longer than the test has room for");
  auto& own = board_.cell(rank_);
  auto& message = own.messages[round % 2];
  message.length = static_cast<std::uint32_t>(mine.size());
  std::copy(mine.begin(), mine.end(), message.bytes.begin());
  own.round.store(round, std::memory_order_release);

  std::vector<Bytes> all;
  for (int rank = 0; rank < board_.size; ++rank) {
    auto& cell = board_.cell(rank);
    for (int polls = 0; cell.round.load(std::memory_order_acquire) < round; ++polls) {
      if (deadline.expired()) {
        throw Error(ErrorCode::timeout,
                    fmt::format("set-up timed out in exchange {} of the bootstrap: rank {} has not "
                                "come",
                                round, rank),
                    {rank});
      }
      if (polls < 100) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(200us);
      }
    }
    const auto& theirs = cell.messages[round % 2];
    all.emplace_back(theirs.bytes.begin(), theirs.bytes.begin() + theirs.length);
  }
  if (after) after(static_cast<int>(round));
  return all;
}

std::vector<Bytes> ForkBootstrap::all_gather(const Bytes& mine, Deadline deadline) {
  return exchange(mine, deadline);
}

Bytes ForkBootstrap::broadcast(const Bytes& from_root, int root, Deadline deadline) {
  auto all = exchange(rank_ == root ? from_root : Bytes(), deadline);
  latest_broadcast_ = all.at(static_cast<std::size_t>(root));
  return latest_broadcast_;
}

void ForkBootstrap::barrier(Deadline deadline) {
  exchange({}, deadline);
}

}  // namespace tutti::test
