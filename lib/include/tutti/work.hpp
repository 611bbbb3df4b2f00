#pragma once

#include <chrono>
#include <memory>

#include "tutti/device_span.hpp"
#include "tutti/error.hpp"
#include "tutti/export.hpp"

namespace tutti {

class Pending;

/// A call that has been started. It goes on while the program computes; its buffers belong to it
/// until it is done. Move-only; used by the thread that
/// uses the communicator.
///
/// A Work that is dropped while the call is pending detaches it: the call goes on, its buffers stay
/// its own until the communicator's next finalize() or until they are known to be done by other
/// means, and an error that it meets is thrown by the communicator's next call. A communicator that
/// is destroyed first waits up to a second for its calls; Work of those that are not done then
/// throws Error{aborted}.
class TUTTI_EXPORT Work {
 public:
  /// Done already.
  Work() noexcept;
  explicit Work(std::unique_ptr<Pending> pending) noexcept;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  /// Returns when the call is done. Throws its Error, also at its deadline (Call::timeout, counted
  /// from the start of the call).
  void wait();
  /// The same for at most `limit`; false if it is not done by then, which harms nothing.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);
  /// True if it is done. Does not wait. Throws its Error.
  [[nodiscard]] bool test();
  /// Device memory: what is queued on `stream` from now on runs after the call. Does not wait.
  /// Error{usage} for a call on host memory.
  void wait(Stream stream);

 private:
  std::unique_ptr<Pending> pending_;
};

}  // namespace tutti
