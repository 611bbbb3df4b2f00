#pragma once

#include <memory>

#include "communicator/pending.hpp"
#include "engine/progress_engine.hpp"

namespace tutti {

/// The sender of the message that a call has received, or -1.
inline int source_of(const std::optional<engine::Messages>& messages) {
  return !messages || !messages->in ? -1 : messages->in->call.signature.root;
}

/// A call on host memory that was started.
class HostPending final : public Pending {
 public:
  /// The progress engine is not used once the task has finished, so it may be gone by then.
  HostPending(engine::ProgressEngine& progress_engine, std::shared_ptr<engine::Task> task)
      : progress_(progress_engine), task_(std::move(task)) {}

  bool wait_for(std::chrono::nanoseconds limit) override {
    const bool finished = task_->finished.load(std::memory_order_acquire) ||
                          progress_.wait(*task_, Deadline::after(limit));
    if (finished && task_->error) std::rethrow_exception(task_->error);
    return finished;
  }
  [[nodiscard]] int source() const override { return source_of(task_->work.messages); }
  void order_before(void*) override {
    throw Error(ErrorCode::usage,
                "a call on host memory can't be waited for by a stream: use wait()");
  }

 private:
  engine::ProgressEngine& progress_;
  std::shared_ptr<engine::Task> task_;
};

}  // namespace tutti
