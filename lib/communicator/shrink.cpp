// The survivors of a job that has lost ranks go on in a job of their own, without MPI.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error_builder.hpp"
#include "communicator/state.hpp"

namespace tutti {
namespace {

// How often the old job is asked who else has gone.
constexpr std::chrono::milliseconds news_time{20};

/// Who of `before`'s ranks does not go on. Only what all have agreed on counts, so that all
/// survivors meet as the same ranks.
std::set<int> lost_in(const Job& before) {
  const auto failure = before.plane->detector().agreed_failure();
  if (!failure) {
    throw Error(ErrorCode::usage,
                "shrink() is for a job that has lost ranks, and no call has thrown "
                "Error{peer_lost} yet");
  }
  if (failure->code != ErrorCode::peer_lost) {
    const auto error = before.plane->detector().agreed_error();
    throw ErrorBuilder(
        Error(ErrorCode::usage,
              fmt::format("shrink() is for a job that has lost ranks; this one ended otherwise: {}",
                          error.sentence()),
              error.failed_ranks()))
        .speaks_for_job(error.speaks_for_job())
        .error();
  }
  std::set<int> lost;
  for (const auto& [rank, reason] : failure->lost) lost.insert(rank);
  return lost;
}

/// Links of the old job may know of deaths that the new one, half linked, can't see.
void pass_on(const Job& before, bool with_departed, std::set<int>& told, Job& next) {
  for (const auto& [rank, reason] : before.plane->detector().lost_ranks(with_departed)) {
    const int original = before.plane->peers().original_rank(rank);
    const int there = next.plane->peers().rank_of_original(original);
    if (there < 0 || there == next.plane->peers().rank() || !told.insert(there).second) continue;
    next.plane->detector().report({.code = ErrorCode::peer_lost,
                                   .lost = {{there, reason}},
                                   .origin = next.plane->peers().rank()});
  }
}

}  // namespace

Communicator Communicator::shrink(const CallOptions& options) {
  auto& first = *state_->job;
  const auto timeout = state_->settings_of(options).timeout;
  const auto deadline = first.plane->detector().deadline(timeout);
  if (state_->group().id != 0) {
    throw Error(ErrorCode::usage,
                "shrink() is for a communicator of the whole job: shrink that one, then split it "
                "again");
  }
  if (first.is_shrunk) {
    throw Error(ErrorCode::usage,
                "this communicator has been shrunk already: use the one that shrink() returned");
  }
  // NCCL's communicator of the old job is of no use, and its end may take a moment.
  state_->device_path.backend.reset();

  while (true) {
    const auto before = first.attempts.empty() ? state_->job : first.attempts.back();
    auto exchanged = before->plane->exchange_of_survivors(lost_in(*before));
    const auto next = std::make_shared<Job>(*before, std::move(exchanged), deadline);
    first.attempts.push_back(next);
    try {
      next->require_thread(deadline);
      std::set<int> told;
      while (!next->plane->is_linked_within(news_time) && !deadline.expired()) {
        pass_on(*before, true, told, *next);
        if (before != state_->job) pass_on(first, false, told, *next);
      }
      next->plane->wait_until_linked(deadline);
      next->share_memory_anew(deadline);
      next->connect();
      auto state = std::make_unique<State>(next, *state_);
      // All have come: only then may the old job's links go.
      state->host->run(
          CheckedCollective{.operation = Operation::barrier},
          {.timeout = std::max<std::chrono::nanoseconds>(deadline.remaining(), news_time)});
      first.plane->retire();
      first.is_shrunk = true;
      first.attempts.pop_back();
      for (const auto& attempt : first.attempts) attempt->plane->retire();
      first.attempts.clear();
      return Communicator(std::move(state));
    } catch (const Error& error) {
      // Another death: those who are left begin again. The others of this attempt have the same
      // agreed failure.
      if (error.code() != ErrorCode::peer_lost || deadline.expired()) throw;
    }
  }
}

}  // namespace tutti
