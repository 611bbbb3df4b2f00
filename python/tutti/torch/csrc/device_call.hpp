#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "device_channel.hpp"

namespace tutti::torch_backend {

/// One call of torch's interface on CUDA tensors: one or several of tutti's that are queued on one
/// stream, and what follows them there.
class DeviceCall {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  /// The call ends at its own timeout.
  static constexpr std::chrono::nanoseconds kWithoutLimit = std::chrono::hours(24 * 365);

  DeviceCall(std::shared_ptr<DeviceChannel> channel, const DeviceChannel::Place& place)
      : channel_(std::move(channel)), place_(place) {}
  ~DeviceCall() { channel_->discard(works); }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  // Before the call is shared with another thread.
  std::vector<Work> works;
  std::vector<at::Tensor> outputs;  ///< the future's value
  std::vector<at::Tensor> kept;     ///< what the calls read and write
  std::vector<std::function<void()>> last_steps;
  int source = -1;  ///< of a receive: the sender's rank
  /// A batch that has not ended: calls are added.
  std::atomic<bool> is_open = false;

  [[nodiscard]] const DeviceChannel::Place& place() const { return place_; }
  [[nodiscard]] DeviceChannel& channel() { return *channel_; }

  /// Queues the last steps behind the calls. When they are staged through host memory, that is only
  /// possible when they are complete.
  void queue_last_steps() {
    if (last_steps.empty()) return;
    const c10::StreamGuard guard(place_.stream);
    for (const auto& step : last_steps) step();
    // They go with the call, outside of its mutex.
    std::move(last_steps.begin(), last_steps.end(), std::back_inserter(done_steps_));
    last_steps.clear();
    end_.emplace(place_.stream.device_type());
    end_->record(place_.stream);
  }

  /// Of a call that is not started any more.
  void fail(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    error_ = std::move(error);
    is_done_ = true;
  }

  /// True when the work on the device is over, successful or not.
  bool poll() {
    std::vector<at::Tensor> dropped;  // after the mutex is released: their end may need the GIL
    const std::scoped_lock lock(mutex_);
    return poll(dropped);
  }
  /// poll(), for up to `limit`. Blocks the calling thread.
  bool wait(std::chrono::nanoseconds limit) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    while (!poll()) {
      const std::chrono::nanoseconds waited = Clock::now() - begin;
      if (place_.is_captured || waited >= limit) return false;
      std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(
          waited / 8, std::chrono::microseconds(5), std::chrono::milliseconds(1)));
    }
    return true;
  }
  /// What the caller's current stream runs from now on, it runs after the call. Throws the error of
  /// a call that is known to have failed.
  void order() {
    std::vector<at::Tensor> dropped;
    const auto current = current_stream(place_.stream.device());
    auto* const handle = channel_->handle_of(current);  // may take the GIL
    if (channel_->is_staged()) wait(kWithoutLimit);
    const std::scoped_lock lock(mutex_);
    // Behind a call on the caller's own stream there is nothing to do: the next call finds
    // failures.
    if (current != place_.stream) poll(dropped);
    if (error_) std::rethrow_exception(error_);
    if (current == place_.stream) return;
    if (end_) {
      end_->block(current);
    } else if (!is_done_) {
      channel_->order(works, handle);
    }
    // Memory that is freed and allocated again on that stream is used after the call.
    if (current == place_.issuer) kept.swap(dropped);
  }

  [[nodiscard]] std::exception_ptr error() {
    const std::scoped_lock lock(mutex_);
    return error_;
  }
  /// Complete at once; whoever uses its value waits for the device by the events in it.
  Future future() {
    if (channel_->is_staged()) wait(kWithoutLimit);
    const std::scoped_lock lock(mutex_);
    if (future_) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                 std::vector<c10::Device>{place_.stream.device()});
    if (error_) {
      future_->setError(error_);
    } else {
      const c10::StreamGuard guard(place_.stream);
      future_->markCompleted(c10::IValue(outputs));
    }
    return future_;
  }

 private:
  bool poll(std::vector<at::Tensor>& dropped) {
    if (is_done_) return true;
    if (is_open || place_.is_captured) return false;
    try {
      if (!have_works_ended_) {
        if (!channel_->poll(works)) return false;
        have_works_ended_ = true;
        queue_last_steps();
      }
      if (end_ && !end_->query()) return false;
    } catch (...) {
      error_ = std::current_exception();
      channel_->discard(works);
    }
    is_done_ = true;
    dropped.swap(kept);
    return true;
  }

  std::shared_ptr<DeviceChannel> channel_;
  DeviceChannel::Place place_;
  std::mutex mutex_;
  std::optional<c10::Event> end_;  ///< after the last steps
  std::vector<std::function<void()>> done_steps_;
  bool have_works_ended_ = false;
  bool is_done_ = false;
  std::exception_ptr error_;
  Future future_;
};

}  // namespace tutti::torch_backend
