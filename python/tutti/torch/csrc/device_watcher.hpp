#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "device_call.hpp"

namespace tutti::torch_backend {

/// A thread that sees the end of the calls that are queued on the device, since programs wait for
/// them by streams alone: it drops their tensors, tells the library that they are over, and finds
/// failures and timeouts. Begins with the first call.
class DeviceWatcher {
 public:
  explicit DeviceWatcher(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  DeviceWatcher(const DeviceWatcher&) = delete;
  DeviceWatcher& operator=(const DeviceWatcher&) = delete;
  ~DeviceWatcher() = default;  // after stop() or abandon()

  void add(std::shared_ptr<DeviceCall> call) {
    const std::scoped_lock lock(mutex_);
    if (stopped_) return;
    const bool was_idle = queues_.empty();
    queues_[&call->channel()].push_back(std::move(call));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    if (was_idle) changed_.notify_all();
  }
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    // Those that have ended meanwhile are no errors.
    for (auto& [channel, queue] : queues_) {
      while (!queue.empty() && queue.front()->poll()) queue.pop_front();
    }
    queues_.clear();
  }
  /// In a forked child, which does not have the thread.
  void abandon() {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  using Queue = std::deque<std::shared_ptr<DeviceCall>>;

  void run() {
    using std::chrono::microseconds;
    constexpr microseconds shortest(100);
    constexpr microseconds longest(10000);
    driver_->tolerate_captures();
    auto pause = shortest;
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      if (queues_.empty()) {
        changed_.wait(lock, [&] { return stopped_ || !queues_.empty(); });
        pause = shortest;
        continue;
      }
      bool has_progressed = false;
      for (auto queue = queues_.begin(); queue != queues_.end();) {
        has_progressed = advance(queue->second, lock) || has_progressed;
        queue = queue->second.empty() ? queues_.erase(queue) : std::next(queue);
      }
      pause = has_progressed ? shortest : std::min(pause * 2, longest);
      if (!queues_.empty()) changed_.wait_for(lock, pause, [&] { return stopped_; });
    }
  }
  /// The calls of a communicator end in their order. True if one has ended.
  bool advance(Queue& queue, std::unique_lock<std::mutex>& lock) {
    bool has_progressed = false;
    while (!queue.empty() && !stopped_) {
      auto call = queue.front();
      lock.unlock();
      const bool is_done = call->poll();
      call.reset();  // perhaps the last reference, and tensors' ends may need the GIL
      lock.lock();
      if (!is_done) break;
      auto ended = std::move(queue.front());
      queue.pop_front();
      has_progressed = true;
      lock.unlock();
      ended.reset();
      lock.lock();
    }
    return has_progressed;
  }

  std::shared_ptr<Driver> driver_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /// std::map: add() leaves the other queues where they are.
  std::map<DeviceChannel*, Queue> queues_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace tutti::torch_backend
