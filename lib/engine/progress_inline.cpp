// Short messages without a task.
#include "engine/progress_engine.hpp"

namespace tutti::engine {

bool ProgressEngine::try_inline(Messages& messages) {
  if (messages.own || messages.any) return false;
  // Only a task calls `while_waiting_` at the promised rate.
  const int turns = while_waiting_ ? 1 : WaitPolicy::inline_turns;
  Wait wait;
  for (int i = 0; i < turns; ++i) {
    if (i > 0 && !wait.may_poll(waits_.inline_message())) {
      const Lock lock(mutex_);
      if (!running_) links_.skip_spinning();
      return false;
    }
    const Lock lock(mutex_);
    // After a failure no message is delivered.
    if (detector_.job_failed() || running_ || has_tasks()) return false;
    if (messages.out) {
      const auto& out = *messages.out;
      if (!links_.try_send(out.to, out.call, out.bytes)) return false;
      messages.out.reset();
    }
    for (int j = 0; messages.in && j < waits_.inline_polls(); ++j) {
      const auto& in = *messages.in;
      const auto receipt = links_.try_receive(in.from, in.senders_call, in.bytes);
      if (receipt == transport::Receipt::refused) return false;
      if (receipt == transport::Receipt::taken) messages.in.reset();
    }
    if (!messages.in) return true;
  }
  return false;
}

}  // namespace tutti::engine
