#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "call.hpp"

namespace tutti::torch_backend {

/// A thread that completes calls for which nobody waits: those with a future, and those whose Work
/// the program has dropped. Begins with the first of them.
class Completer : public std::enable_shared_from_this<Completer> {
 public:
  Completer() = default;
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  ~Completer() = default;  // the thread keeps it until stop()

  void add(std::shared_ptr<Call> call) {
    const std::scoped_lock lock(mutex_);
    incoming_.push_back(std::move(call));
    if (stopped_) return;
    if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->run(); });
    changed_.notify_all();
  }
  /// Afterwards only complete_rest() completes calls.
  void stop() {
    std::thread ending;
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
      ending = std::move(thread_);
    }
    if (!ending.joinable()) return;
    // A future's callback on this thread may have dropped the last reference to the process group.
    if (ending.get_id() == std::this_thread::get_id()) {
      ending.detach();
    } else {
      ending.join();
    }
  }
  /// In a forked child, which does not have the thread.
  void abandon() {
    if (thread_.joinable()) thread_.detach();
  }
  /// Of the communicator that is closed: the calls have ended.
  void complete_rest() {
    std::vector<std::shared_ptr<Call>> rest;
    {
      const std::scoped_lock lock(mutex_);
      rest.swap(incoming_);
    }
    for (const auto& call : rest) call->wait(Milliseconds(100));
  }

 private:
  void run() {
    std::vector<std::shared_ptr<Call>> calls;
    auto progressed = std::chrono::steady_clock::now();
    while (true) {
      {
        std::unique_lock lock(mutex_);
        if (calls.empty()) changed_.wait(lock, [&] { return stopped_ || !incoming_.empty(); });
        if (stopped_) {
          incoming_.insert(incoming_.begin(), calls.begin(), calls.end());
          return;
        }
        if (!incoming_.empty()) progressed = std::chrono::steady_clock::now();
        calls.insert(calls.end(), incoming_.begin(), incoming_.end());
        incoming_.clear();
      }
      // Who waits for one call advances all of them, but sees only its own end.
      const auto before = calls.size();
      std::erase_if(calls,
                    [](const auto& call) { return call->wait(std::chrono::nanoseconds(0)); });
      if (calls.size() != before) progressed = std::chrono::steady_clock::now();
      if (calls.empty()) continue;
      const std::chrono::nanoseconds idle = std::chrono::steady_clock::now() - progressed;
      calls.front()->wait(std::clamp<std::chrono::nanoseconds>(
          idle / 8, std::chrono::microseconds(20), std::chrono::milliseconds(1)));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Call>> incoming_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace tutti::torch_backend
