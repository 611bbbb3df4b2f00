#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "tutti/device_span.hpp"
#include "tutti/error.hpp"
#include "tutti/export.hpp"

namespace tutti {

class Pending;

/// A non-blocking call. It proceeds while the program computes, and uses its buffers until it is
/// complete. Move-only.
///
/// One thread at a time uses a Work. For a call on host memory that may be another thread than the
/// one that makes the communicator's calls meanwhile; with Options::mpi_progress and for calls on
/// device memory it is the same thread. The communicator is not destroyed while a thread is in one
/// of the functions below.
///
/// A Work is active until one of the functions below has reported its end, with or without an
/// Error; from then on it counts as complete.
///
/// A Work that is destroyed while it is active detaches its call: the call proceeds, its buffers
/// must stay valid until the communicator's finalize() returns, and its Error is thrown by the
/// communicator's next call. A communicator that is destroyed first waits up to a second for its
/// calls; Work of those that are not complete then throws Error{aborted}.
class [[nodiscard]] TUTTI_EXPORT Work {
 public:
  /// An empty, completed Work.
  Work() noexcept;
  /// For the library: made by Communicator::start().
  explicit Work(std::unique_ptr<Pending> pending) noexcept;
  /// Leaves the other Work empty.
  Work(Work&&) noexcept;
  /// Detaches the current call first, if it is active. Leaves the other Work empty.
  Work& operator=(Work&&) noexcept;
  /// Detaches the call if it is active; does not wait.
  ~Work();

  /// True until the end of the call has been reported. Does not check whether the call is done.
  [[nodiscard]] bool is_active() const noexcept { return pending_ != nullptr; }
  /// Returns when the call is complete. Throws its Error, at the latest at the call's deadline
  /// (CallOptions::timeout, from the start of the call).
  void wait();
  /// As wait(), for at most `limit`: returns false if the call is not complete by then. The call
  /// continues.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);
  /// Returns whether the call is complete, without waiting. Throws its Error.
  [[nodiscard]] bool test();
  /// The rank whose message a recv has received, once the call is complete; otherwise -1.
  [[nodiscard]] int source() const noexcept { return source_; }
  /// For calls on device memory: work that is enqueued on `stream` from now on runs after the call.
  /// Does not block the host thread. Error{usage} for a call on host memory.
  void wait(Stream stream);

 private:
  std::unique_ptr<Pending> pending_;
  int source_ = -1;
};

/// Returns when all of `works` are complete. If some fail, throws the Error of the first of them in
/// the order of `works`, after all are complete or have failed. Each call keeps its own deadline,
/// and the last of these bounds the wait. As MPI_Waitall.
TUTTI_EXPORT void wait_all(std::span<Work> works);

/// Waits until an active Work completes and returns its index, the lowest if there are several.
/// Returns works.size() if none is active. Throws the Error of a Work that fails, at the latest at
/// its own deadline; that Work is then no longer active, and the others are unchanged. As
/// MPI_Waitany.
[[nodiscard]] TUTTI_EXPORT std::size_t wait_any(std::span<Work> works);

}  // namespace tutti
