#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_gpu.hpp"

/// What the parts of the fake driver share.
namespace fake_gpu {

// Of CUresult.
inline constexpr int success = 0;
inline constexpr int invalid_value = 1;
inline constexpr int out_of_memory = 2;
inline constexpr int peer_access_unsupported = 217;
inline constexpr int no_device = 100;
inline constexpr int not_ready = 600;
inline constexpr int capture_unsupported = 900;
inline constexpr int captured_event = 907;

struct Allocation {
  std::size_t bytes = 0;
  std::byte* alias = nullptr;
  int device = 0;
  bool pinned = false;
  int file = -1;  ///< that other processes map, for device memory
};

struct Graph {
  std::vector<std::function<void()>> work;
};

/// Runs its work in order, in a thread of its own.
class Stream {
 public:
  void enqueue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (graph_) {
      graph_->work.push_back(std::move(work));
      return;
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    queue_.push_back(std::move(work));
    ++unfinished_;
    changed_.notify_all();
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return unfinished_ == 0;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return unfinished_ == 0; });
  }
  bool is_capturing() {
    const std::lock_guard lock(mutex_);
    return graph_ != nullptr;
  }
  void begin_capture() {
    const std::lock_guard lock(mutex_);
    graph_ = std::make_shared<Graph>();
  }
  std::shared_ptr<Graph> end_capture() {
    const std::lock_guard lock(mutex_);
    return std::move(graph_);
  }
  ~Stream() {
    if (thread_.joinable()) thread_.detach();
  }
  [[nodiscard]] unsigned long long id() const { return id_; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      const int delay = setting("FAKE_GPU_DELAY_US", 0);
      if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      work();
      lock.lock();
      --unfinished_;
      changed_.notify_all();
    }
  }
  static unsigned long long next_id() {
    static std::atomic<unsigned long long> latest{0};
    return ++latest;
  }
  const unsigned long long id_ = next_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::size_t unfinished_ = 0;
  std::shared_ptr<Graph> graph_;
  std::thread thread_;
};

class Machine {
 public:
  Machine() {
    const int there = setting("FAKE_GPU_DEVICES", 4);
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) {
      for (int device = 0; device < there; ++device) devices.push_back(device);
      return;
    }
    std::string text(visible);
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find(',', begin), text.size());
      const int device = std::atoi(text.substr(begin, end - begin).c_str());
      if (device >= there) break;
      devices.push_back(device);
      begin = end + 1;
    }
  }

  std::vector<int> devices;  ///< device numbers of the visible devices
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> blocks;
  std::map<int, int> retained;
  Stream default_stream;
  std::atomic<int> capturing{0};
  std::atomic<int> kernels{0};  ///< queued or running
};

/// Never destroyed: its threads run until the process ends.
Machine& machine();

/// The calling thread's context.
void*& current_context();
void* context_of(int device);
Stream& stream_of(void* stream);

/// The allocation that contains the address, and where it begins; null if there is none. With the
/// machine's mutex held.
const Allocation* find_block(std::uintptr_t address, std::uintptr_t& base);
void* pointer(unsigned long long address);

}  // namespace fake_gpu
