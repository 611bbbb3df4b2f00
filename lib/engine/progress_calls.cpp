// How the running thread advances calls.
#include <algorithm>
#include <utility>

#include "base/copy.hpp"
#include "engine/progress_engine.hpp"
#include "engine/reduce.hpp"

namespace tutti::engine {

void ProgressEngine::advance_and_wait(Deadline limit) {
  current_ = nullptr;
  try {
    if (detector_.job_failed()) return fail_all();
    if (advance_all()) return;
    auto max_wait = std::min<std::chrono::nanoseconds>(WaitPolicy::max_sleep, limit.remaining());
    for (const auto* task : active_) max_wait = std::min(max_wait, task->deadline.remaining());
    // Not on the progress thread: the callback may need the caller's thread.
    if (while_waiting_ && !progress_thread_runs_) {
      while_waiting_();
      max_wait = std::min<std::chrono::nanoseconds>(max_wait, WaitPolicy::callback_interval);
    }
    const bool moved = progress(max_wait);
    // The data may complete all calls; otherwise deadlines are checked in any case.
    if (moved && advance_all() && active_.empty()) return;
    check_tasks(moved);
  } catch (...) {
    if (active_.empty()) return;
    fail_all_with(current_ != nullptr ? *current_ : *active_.front(), std::current_exception());
  }
}

/// Returns true if a call has finished.
bool ProgressEngine::advance_all() {
  for (auto* const task : active_) {
    current_ = task;
    if (advance(*task)) complete(*task);
  }
  current_ = nullptr;
  if (finished_.empty()) return false;
  std::erase_if(active_, [this](Task* task) {
    return std::find(finished_.begin(), finished_.end(), task) != finished_.end();
  });
  return true;
}

void ProgressEngine::activate(Task& task) {
  task.progress.emplace();
  if (task.work.messages) {
    start_messages(task);
  } else if (!task.work.shared) {
    start_schedule(task);
  }
}

void ProgressEngine::start_schedule(Task& task) {
  if (const auto& division = task.work.division; division && division->weighs) {
    weigh(division->buffer, division->buffer, division->count, division->type,
          average_weight(static_cast<std::size_t>(division->ranks)));
  }
  const auto& schedule = *task.work.schedule;
  auto* const chunks = task.work.chunks ? &*task.work.chunks : nullptr;
  if (task.execution) {
    task.execution->restart(schedule, task.work.memory, chunks);
  } else {
    task.execution = std::make_unique<Execution>(
        schedule, task.work.memory, Execution::Names{task.context, task.pending.group->world},
        links_, chunks);
  }
}

void ProgressEngine::start_messages(Task& task) {
  const auto& messages = *task.work.messages;
  auto& transfer = task.progress->transfer;
  if (const auto& in = messages.in) {
    checker_.add_message(in->from, in->call);
    transfer.receive(links_, *in);
  }
  if (const auto& out = messages.out) {
    checker_.add_message(out->to, out->call);
    transfer.send(links_, *out);
  }
  if (const auto& own = messages.own) {
    copy_bytes(own->to, own->from.data(), own->from.size());
  }
}

/// Returns true if a message for the task's receive from any rank has arrived, of the lowest such
/// rank.
bool ProgressEngine::find_any(Task& task) {
  auto& messages = *task.work.messages;
  auto& any = *messages.any;
  const auto& group = *task.pending.group;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank) continue;
    auto& received = any.order->received[static_cast<std::size_t>(rank)];
    auto call = any.call;
    call.key.sequence = received + 1;
    call.signature.root = rank;
    const int from = group.world_of(rank);
    if (!links_.has_arrived(from, call.key)) continue;
    ++received;
    any.from = rank;
    any.order->pending.fetch_sub(1, std::memory_order_release);
    auto senders_call = call;
    senders_call.signature.operation = Operation::send;
    senders_call.signature.root = group.rank;
    messages.in = {.from = from, .call = call, .senders_call = senders_call, .bytes = any.bytes};
    start_messages(task);
    return true;
  }
  return false;
}

bool ProgressEngine::advance(Task& task) {
  if (!task.progress) activate(task);
  if (auto& shared = task.work.shared) {
    if (!shared->may_run()) return false;
    const auto progress = shared->advance();
    if (progress != SharedCall::Progress::blocked) {
      shared_wait_.reset();
      shared_has_moved_ = true;
    }
    return progress == SharedCall::Progress::done &&
           !(shared->has_read_exported() && detector_.job_failed());
  }
  if (const auto& messages = task.work.messages) {
    if (messages->awaits_any() && !find_any(task)) return false;
    return task.progress->transfer.done();
  }
  auto& chunks = task.work.chunks;
  if (chunks && !chunks->may_run()) return false;
  const bool done = task.execution->advance();
  if (task.execution->has_moved_published()) {
    shared_wait_.reset();
    shared_has_moved_ = true;
  }
  if (done && chunks) chunks->finish();
  return done;
}

void ProgressEngine::complete(Task& task) {
  if (const auto& messages = task.work.messages) {
    if (const auto& out = messages->out) links_.finish_sent(out->call.key, out->to);
    if (const auto& in = messages->in) links_.finish_received(in->call.key, in->from);
  } else if (!task.work.shared) {
    links_.finish_collective(task.context.key);
  }
  if (const auto& division = task.work.division) {
    divide(division->buffer, division->count, division->type, division->ranks);
  }
  if (const auto& unpacking = task.work.unpacking) {
    for (const auto& block : unpacking->blocks) {
      copy_bytes(unpacking->to + block.to, unpacking->from + block.from, block.bytes);
    }
  }
  retire(task);
}

void ProgressEngine::retire(Task& task) {
  if (const auto& messages = task.work.messages) {
    if (const auto& out = messages->out) checker_.remove_message(out->call);
    if (const auto& in = messages->in) checker_.remove_message(in->call);
    if (messages->awaits_any())
      messages->any->order->pending.fetch_sub(1, std::memory_order_release);
  }
  task.history->end(task.pending.begun.ticket);
  finished_.push_back(&task);
}

}  // namespace tutti::engine
