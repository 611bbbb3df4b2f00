#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/keep_mapped.hpp"

namespace tutti::device {

/// Runs a call that may never return in a thread of its own, so that the caller can stop waiting.
/// An abandoned call keeps its thread, and all that `action` holds, until the process ends.
template <class Result>
class LimitedCall {
 public:
  /// Throws Error{system} if no thread is available.
  explicit LimitedCall(std::function<Result()> action) : state_(std::make_shared<State>()) {
    start_abandoned_thread("to call NCCL", [state = state_, action = std::move(action)] {
      auto result = action();
      const std::lock_guard lock(state->mutex);
      state->result = std::move(result);
      state->changed.notify_all();
    });
  }

  /// Returns the result, or nothing if it has not arrived within `limit`. May be called again.
  std::optional<Result> wait_for(std::chrono::nanoseconds limit) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, limit, [this] { return state_->result.has_value(); });
    return state_->result;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result> result;
  };
  std::shared_ptr<State> state_;
};

}  // namespace tutti::device
