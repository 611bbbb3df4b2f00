#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/quiet_thread.hpp"
#include "communicator/backend.hpp"
#include "control/group.hpp"
#include "control/plane.hpp"
#include "device/context.hpp"
#include "device/setup_talk.hpp"
#include "device/unique_id.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// A group's NCCL communicator, from set-up to the end.
class Session {
 public:
  struct Parts {
    std::shared_ptr<const Context> context;
    std::shared_ptr<const Library<NcclCalls>> nccl;
    control::Plane& plane;
    control::Group group;
  };

  /// Collective over the group; `broadcast` carries NCCL's unique id. Throws AgreedFailure where
  /// rank 0 can't make the id, where NCCL's set-up fails or a thread for it is missing on some
  /// rank, or where it is not done at the talk's deadline: NCCL is then never touched again.
  Session(Parts parts, SetupTalk& talk, const Broadcast& broadcast);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Finalises and destroys, or after a verdict aborts, within a limit: past it NCCL is left alone.
  ~Session();

  [[nodiscard]] const NcclCalls& nccl() const { return parts_.nccl->calls; }
  [[nodiscard]] const Context& context() const { return *parts_.context; }
  [[nodiscard]] std::shared_ptr<const Context> shared_context() const { return parts_.context; }
  [[nodiscard]] const control::Group& group() const { return parts_.group; }
  [[nodiscard]] const Faults& faults() const { return faults_; }
  /// Not after abort().
  [[nodiscard]] NcclComm comm() const { return comm_; }
  /// One byte of device memory, for barriers.
  [[nodiscard]] void* token() const;
  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] double setup_milliseconds() const { return setup_milliseconds_; }

  /// Once: a thread for the Watch over this session's calls.
  [[nodiscard]] std::unique_ptr<ReservedThread> take_watch_thread() {
    return std::move(watch_thread_);
  }

  /// Ends NCCL's work after a failure, within a limit; past it NCCL is left alone. From any thread.
  /// Afterwards the session is of no use.
  void abort() noexcept;
  /// Throws what NCCL has met since it was last asked. From any thread.
  void check_async() const;
  /// Throws the error that `result` means.
  [[noreturn]] void fail(NcclResult result, const std::string& doing) const;

 private:
  void reserve_watch_thread();
  void join(const NcclUniqueId& id, SetupTalk& talk);
  void end(bool in_order, std::chrono::nanoseconds limit);

  Parts parts_;
  Faults faults_;
  mutable std::mutex mutex_;  ///< of the communicator's end
  // Written under the mutex; a call that is blocked in NCCL has read it when the watch ends it.
  std::atomic<NcclComm> comm_{nullptr};
  DeviceAddress token_ = 0;
  std::unique_ptr<ReservedThread> watch_thread_;
  std::string no_thread_because_;
  int version_ = 0;
  double setup_milliseconds_ = 0;
};

}  // namespace tutti::device
