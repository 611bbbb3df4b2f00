#pragma once

#include <memory>
#include <vector>

#include "device/context.hpp"

namespace tutti::device {

/// A pool of CUDA events. Events keep the pool alive.
class EventPool {
 public:
  explicit EventPool(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool() {
    for (auto* const event : free_) context_->cuda().destroy_event(event);
  }

  /// An event that returns to the pool when destroyed.
  class Event {
   public:
    /// The device must be current in the calling thread.
    Event(std::shared_ptr<EventPool> pool, const ApiErrors& errors)
        : pool_(std::move(pool)), handle_(pool_->take(errors)) {}
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { pool_->free_.push_back(handle_); }
    [[nodiscard]] CudaEvent handle() const { return handle_; }

   private:
    std::shared_ptr<EventPool> pool_;
    CudaEvent handle_;
  };

 private:
  [[nodiscard]] CudaEvent take(const ApiErrors& errors) {
    if (!free_.empty()) {
      auto* const event = free_.back();
      free_.pop_back();
      return event;
    }
    CudaEvent made = nullptr;
    errors.check(context_->cuda().create_event(&made, event_without_timing), "creating an event");
    return made;
  }

  std::shared_ptr<const Context> context_;
  std::vector<CudaEvent> free_;
};

}  // namespace tutti::device
