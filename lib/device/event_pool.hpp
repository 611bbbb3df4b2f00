#pragma once

#include <memory>
#include <vector>

#include "device/context.hpp"

namespace tutti::device {

/// CUDA events, used again and again. Whoever holds an event keeps the pool.
class EventPool {
 public:
  explicit EventPool(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool() {
    for (auto* const event : free_) context_->cuda().destroy_event(event);
  }

  /// An event that goes back into the pool at the end.
  class Event {
   public:
    /// The device is current in the calling thread.
    Event(std::shared_ptr<EventPool> pool, const Faults& faults)
        : pool_(std::move(pool)), handle_(pool_->take(faults)) {}
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { pool_->free_.push_back(handle_); }
    [[nodiscard]] CudaEvent handle() const { return handle_; }

   private:
    std::shared_ptr<EventPool> pool_;
    CudaEvent handle_;
  };

 private:
  [[nodiscard]] CudaEvent take(const Faults& faults) {
    if (!free_.empty()) {
      auto* const event = free_.back();
      free_.pop_back();
      return event;
    }
    CudaEvent made = nullptr;
    faults.check(context_->cuda().create_event(&made, event_without_timing), "making an event");
    return made;
  }

  std::shared_ptr<const Context> context_;
  std::vector<CudaEvent> free_;
};

}  // namespace tutti::device
