#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/quiet_thread.hpp"
#include "communicator/backend.hpp"
#include "control/failure_detector.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "device/setup_exchange.hpp"
#include "device/unique_id.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// A group's NCCL communicator, from set-up to destruction.
class Session {
 public:
  struct Parts {
    std::shared_ptr<const Context> context;
    std::shared_ptr<const Library<NcclCalls>> nccl;
    control::FailureDetector& detector;
    control::Group group;
  };

  /// Collective over the group; `broadcast` carries NCCL's unique id. Throws AgreedFailure if rank
  /// 0 can't create the id, if NCCL's set-up fails or lacks a thread on some rank, or at `setup`'s
  /// deadline; NCCL is not used afterwards.
  Session(Parts parts, SetupExchange& setup, const Broadcast& broadcast);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Finalizes and destroys the communicator, or aborts it after a failure, within a limit; past it
  /// NCCL is left alone.
  ~Session();

  [[nodiscard]] const NcclCalls& nccl() const { return parts_.nccl->calls; }
  [[nodiscard]] const Context& context() const { return *parts_.context; }
  [[nodiscard]] std::shared_ptr<const Context> shared_context() const { return parts_.context; }
  [[nodiscard]] const control::Group& group() const { return parts_.group; }
  [[nodiscard]] const ApiErrors& errors() const { return errors_; }
  /// Not after abort().
  [[nodiscard]] NcclComm comm() const { return comm_; }
  /// One byte of device memory, for barriers.
  [[nodiscard]] void* token() const;
  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] double setup_milliseconds() const { return setup_milliseconds_; }

  /// Callable once: the thread for the watchdog of this session's calls.
  [[nodiscard]] std::unique_ptr<ReservedThread> take_watchdog_thread() {
    return std::move(watchdog_thread_);
  }

  /// Aborts NCCL's work after a failure, within a limit; past it NCCL is left alone. From any
  /// thread. The session can't be used afterwards.
  void abort() noexcept;
  /// Work on streams that has ended since may be without a result. True before the first such work
  /// ends.
  [[nodiscard]] bool is_aborted() const noexcept { return is_aborted_.load(); }
  /// Throws NCCL's asynchronous error since the last check. From any thread.
  void check_async() const;
  /// Throws the error for `result`.
  [[noreturn]] void fail(NcclResult result, const std::string& doing) const;

 private:
  void reserve_watchdog_thread();
  void join(const NcclUniqueId& id, SetupExchange& setup);
  void end(bool in_order, std::chrono::nanoseconds limit);

  Parts parts_;
  ApiErrors errors_;
  mutable std::mutex mutex_;  ///< protects the end of the communicator
  // Written under the mutex; a call blocked in NCCL has read it before the watchdog aborts it.
  std::atomic<NcclComm> comm_{nullptr};
  std::atomic<bool> is_aborted_{false};
  DeviceAddress token_ = 0;
  std::unique_ptr<ReservedThread> watchdog_thread_;
  std::string no_thread_because_;
  int version_ = 0;
  double setup_milliseconds_ = 0;
};

}  // namespace tutti::device
