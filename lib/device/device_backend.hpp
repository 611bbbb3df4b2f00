#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "communicator/backend.hpp"
#include "control/plane.hpp"
#include "device/watch.hpp"
#include "event_pool.hpp"
#include "nccl_queue.hpp"
#include "pointer_check.hpp"
#include "session.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// Moves buffers in device memory through NCCL: each call is NCCL's own, put on the caller's stream
/// (CallSettings::stream), also while that is captured in a graph. A call returns when it is
/// queued. What is queued counts as a call in progress until synchronize() or a Pending has seen it
/// done, so that different calls are found by the control plane whoever waits, and how.
class DeviceBackend final : public Backend {
 public:
  struct Parts {
    control::Plane& plane;
    std::shared_ptr<control::CallHistory> history;
    std::unique_ptr<Session> session;
    /// A call is stuck inside NCCL and can't be ended: this says so for people. From a thread of
    /// the backend's own.
    std::function<void(const Error&)> stuck;
  };
  explicit DeviceBackend(Parts parts);
  ~DeviceBackend() override;

  [[nodiscard]] const char* name() const override { return "nccl"; }
  void run(const CheckedCollective& call, const CallSettings& settings) override;
  void run(const Message& message, const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const CheckedCollective& call,
                                 const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const Message& message, const CallSettings& settings) override;
  void synchronize(const CallSettings& settings) override;
  [[nodiscard]] const std::string& latest_algorithm() const override { return algorithm_; }

 private:
  class Started;

  /// Error{usage} where NCCL, or this one, has no such arithmetic.
  void require_arithmetic(const CheckedCollective& call) const;
  template <class Action>
  void queue(const CallSignature& call, bool collective, const CallSettings& settings,
             Action action);
  void all_to_all_in_place(const CheckedCollective& call, const CallSettings& settings);
  [[nodiscard]] std::unique_ptr<Pending> record(const CallSettings& settings);
  [[nodiscard]] bool is_capturing(CudaStream stream) const;

  /// True when `look` says cuda_success, false at `limit`; throws the verdict, what NCCL has met,
  /// and past `deadline` who is late. After a throw NCCL's work is ended.
  template <class Look>
  bool wait(Look look, Deadline limit, Deadline deadline, std::chrono::nanoseconds timeout);
  /// The calls up to number `ordinal` are done: NCCL runs a communicator's calls in their order.
  void note_queued(CudaStream stream);
  /// The stream has come past call number `ordinal`.
  void finished(CudaStream stream, std::uint64_t ordinal);
  [[nodiscard]] Error agreed_failure() const;
  [[nodiscard]] control::FailureReport make_timeout_report(std::chrono::nanoseconds timeout) const;

  control::Plane& plane_;
  std::shared_ptr<control::CallHistory> history_;
  std::unique_ptr<Session> session_;
  NcclQueue nccl_;
  PointerCheck pointers_;
  std::shared_ptr<EventPool> events_;
  /// Null once this is gone: calls that were started outlive it.
  std::shared_ptr<DeviceBackend*> self_;
  std::string algorithm_ = "nccl";
  std::uint8_t algorithm_id_;
  std::uint64_t begun_ = 0;     ///< calls queued
  std::uint64_t finished_ = 0;  ///< of these, known to be done
  /// Streams with calls that are not known to be done, and the latest call on each.
  struct Queue {
    CudaStream stream = nullptr;
    std::uint64_t latest = 0;
  };
  std::vector<Queue> queues_;
  std::atomic<int> latest_sender_{-1};  ///< of the latest send_recv
  Watch watch_;                         ///< last: it ends before what it looks after
};

}  // namespace tutti::device
