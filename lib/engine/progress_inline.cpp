// Short messages without a task.
#include <sched.h>

#include "base/pause.hpp"
#include "engine/progress_engine.hpp"

namespace tutti::engine {
namespace {

// A rank polls for about 15 µs (turns × polls) before it makes a task, which may sleep. If ranks
// share cores, it polls once a turn and yields the core, which the sender may need; if other
// processes compute, a turn takes long and sleeping is better.
constexpr int max_turns = 16;
constexpr int polls_with_own_core = 64;

}  // namespace

bool ProgressEngine::try_inline(Messages& messages) {
  using Clock = std::chrono::steady_clock;
  if (messages.own) return false;
  const int polls_in_a_row = shares_cores_ ? 1 : polls_with_own_core;
  // Only a task calls `while_waiting_` at the promised rate.
  const int turns = while_waiting_ ? 1 : max_turns;
  Clock::time_point begun;
  for (int i = 0; i < turns; ++i) {
    if (i > 0 && shares_cores_) {
      if (i == 1) begun = Clock::now();
      ::sched_yield();
    }
    const Lock lock(mutex_);
    // After a failure no message is delivered.
    if (detector_.job_failed() || running_ || has_tasks()) return false;
    if (messages.out) {
      const auto& out = *messages.out;
      if (!links_.try_send(out.to, out.call, out.bytes)) return false;
      messages.out.reset();
    }
    for (int j = 0; messages.in && j < polls_in_a_row; ++j) {
      const auto& in = *messages.in;
      const auto receipt = links_.try_receive(in.from, in.senders_call, in.bytes);
      if (receipt == transport::Receipt::refused) return false;
      if (receipt == transport::Receipt::taken) messages.in.reset();
    }
    if (!messages.in) return true;
    if (i > 0 && shares_cores_ && Clock::now() - begun > max_yield_time) {
      links_.skip_spinning();
      return false;
    }
  }
  return false;
}

}  // namespace tutti::engine
