#pragma once

#include <chrono>

namespace tutti {

/// A started call, as a backend keeps it. Destroying it lets the call go on by itself.
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  virtual ~Pending() = default;

  /// True when the call is done, false after `limit`; throws what the call has met. Past the call's
  /// own deadline it throws.
  virtual bool wait_for(std::chrono::nanoseconds limit) = 0;
  /// Of a recv that is done, the sender's rank; else -1.
  [[nodiscard]] virtual int source() const { return -1; }
  /// What is queued on `stream` from now on runs after the call.
  virtual void order_before(void* stream) = 0;
};

}  // namespace tutti
