#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "channel.hpp"

namespace tutti::torch_backend {

/// One call of torch's interface: one or several of tutti's, and what is to be done after them.
/// Keeps the tensors until then.
class Call {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  explicit Call(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  // Before the call is shared with another thread.
  std::vector<Work> works;
  std::vector<at::Tensor> outputs;                ///< the future's value
  std::vector<at::Tensor> kept;                   ///< what the calls read and write
  std::vector<std::function<void()>> last_steps;  ///< such as copies to the user's tensors
  std::atomic<int> source = -1;                   ///< of a complete receive: the sender's rank
  /// A batch that has not ended: calls are added, and no thread may complete it.
  std::atomic<bool> is_open = false;

  /// Runs the last steps; for a call that has blocked, or failed.
  void complete(std::exception_ptr error = nullptr) {
    Future future;
    Ended ended;
    {
      const std::scoped_lock lock(mutex_);
      ended = finish(std::move(error));
      future = future_;
    }
    mark(future);
  }

  /// True when the call is complete, successful or not; waits up to `limit`.
  bool wait(std::chrono::nanoseconds limit) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    if (is_open) return false;
    std::unique_lock lock(mutex_);
    while (!is_done_) {
      const auto left = limit - (Clock::now() - begin);
      if (is_waited_for_) {
        if (left.count() <= 0) return false;
        changed_.wait_for(lock, left, [&] { return is_done_ || !is_waited_for_; });
        continue;
      }
      is_waited_for_ = true;
      lock.unlock();
      bool has_ended = true;
      std::exception_ptr error;
      try {
        // In slices, so that the process group can be closed meanwhile.
        has_ended = channel_->wait(works, std::clamp<std::chrono::nanoseconds>(
                                              left, std::chrono::nanoseconds(0), Milliseconds(50)));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      is_waited_for_ = false;
      if (!has_ended) {
        changed_.notify_all();
        if (Clock::now() - begin >= limit) return false;
        continue;
      }
      const auto ended = finish(std::move(error));
      const auto future = future_;
      lock.unlock();
      mark(future);
      return true;
    }
    return true;
  }

  [[nodiscard]] bool is_done() {
    const std::scoped_lock lock(mutex_);
    return is_done_;
  }
  [[nodiscard]] std::exception_ptr error() {
    const std::scoped_lock lock(mutex_);
    return error_;
  }
  /// Complete when the call is. `is_new` says that somebody has to see to that.
  Future future(bool& is_new) {
    Future result;
    bool is_done = false;
    {
      const std::scoped_lock lock(mutex_);
      is_new = !future_ && !is_done_;
      is_done = is_done_ && !future_;
      if (!future_) {
        future_ =
            c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      }
      result = future_;
    }
    if (is_done) mark(result);
    return result;
  }

 private:
  /// What a call has kept. The end of a tensor may need the GIL, which another thread may hold
  /// while it waits for the mutex: so these end without it.
  struct Ended {
    std::vector<at::Tensor> kept;
    std::vector<std::function<void()>> last_steps;
  };

  /// With the mutex. The last steps need the GIL of no Python object: tensors only.
  [[nodiscard]] Ended finish(std::exception_ptr error) {
    if (!error) {
      try {
        for (const auto& step : last_steps) step();
      } catch (...) {
        error = std::current_exception();
      }
    }
    error_ = std::move(error);
    for (const auto& work : works) source = work.source();
    works.clear();
    is_done_ = true;
    changed_.notify_all();
    return {std::move(kept), std::move(last_steps)};
  }
  /// Without locks: callbacks run here.
  void mark(const Future& future) {
    if (!future || future->completed()) return;
    if (error_) {
      future->setErrorIfNeeded(error_);
    } else {
      future->markCompleted(c10::IValue(outputs));
    }
  }

  std::shared_ptr<Channel> channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  bool is_waited_for_ = false;
  std::exception_ptr error_;
  Future future_;
};

}  // namespace tutti::torch_backend
