#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "communicator/backend.hpp"
#include "control/call_history.hpp"
#include "control/failure_detector.hpp"
#include "control/status_exchange.hpp"
#include "device/nccl_watchdog.hpp"
#include "direct/path.hpp"
#include "event_pool.hpp"
#include "nccl_queue.hpp"
#include "pointer_check.hpp"
#include "session.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// Moves buffers in device memory with NCCL, or with kernels of our own inside a host: each call is
/// queued on the caller's stream (CallSettings::stream), also while the stream is captured in a
/// graph, and returns when it is queued. A queued call counts as in progress until synchronize() or
/// a Pending has seen it done, so that the control plane detects mismatched calls however the
/// program waits.
class DeviceBackend final : public Backend {
 public:
  struct Parts {
    control::FailureDetector& detector;
    control::StatusExchange& statuses;
    std::shared_ptr<control::CallHistory> history;
    Backend& host;
    std::unique_ptr<Session> session;
    std::unique_ptr<direct::DirectPath> direct;  ///< null: NCCL takes all calls
    /// Reports a call that is blocked inside NCCL and can't be ended. Called from a thread of the
    /// backend.
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
  std::unique_ptr<Pending> start_together(std::span<const Message> messages,
                                          const CallSettings& settings) override;
  void synchronize(const CallSettings& settings) override;
  std::shared_ptr<void> allocate_device(std::size_t bytes, const CallSettings& settings) override;
  [[nodiscard]] const std::string& latest_algorithm() const override { return algorithm_; }

 private:
  class Started;

  /// Throws Error{usage} if NCCL, or this version, lacks such arithmetic.
  void require_arithmetic(const CheckedCollective& call) const;
  /// `begin` enters what `action` queues in the history. `doing` is for errors.
  template <class Begin, class Action>
  void queue(std::string_view doing, const CallSettings& settings, Begin begin, Action action);
  void begin_message(const Message& message);
  template <class Action>
  void queue_collective(const CallSignature& call, const CallSettings& settings, Action action);
  void run_direct(const CheckedCollective& call, direct::Protocol protocol,
                  const CallSettings& settings);
  [[nodiscard]] bool is_aborted() const noexcept {
    return session_->is_aborted() || (direct_ && direct_->is_aborted());
  }
  /// Ends the work on all streams, without results.
  void abort() noexcept;
  void all_to_all_in_place(const CheckedCollective& call, const CallSettings& settings);
  [[nodiscard]] std::unique_ptr<Pending> record(const CallSettings& settings);
  [[nodiscard]] bool is_capturing(CudaStream stream) const;

  /// Returns true when `look` returns cuda_success, false at `limit`. Throws the agreed failure, an
  /// error of NCCL, or past `deadline` a timeout report; then NCCL's work has been aborted.
  template <class Look>
  bool wait(Look look, Deadline limit, Deadline deadline, std::chrono::nanoseconds timeout);
  /// Calls up to number `ordinal` are done: NCCL runs a communicator's calls in order.
  void note_queued(CudaStream stream);
  /// The stream has passed call number `ordinal`.
  void finished(CudaStream stream, std::uint64_t ordinal);
  [[nodiscard]] Error agreed_failure() const;
  [[nodiscard]] control::FailureReport make_timeout_report(std::chrono::nanoseconds timeout) const;

  control::FailureDetector& detector_;
  control::StatusExchange& statuses_;
  std::shared_ptr<control::CallHistory> history_;
  Backend& host_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<direct::DirectPath> direct_;
  NcclQueue nccl_;
  PointerCheck pointers_;
  std::shared_ptr<EventPool> events_;
  /// Null once the backend is destroyed: calls that were started outlive it.
  std::shared_ptr<DeviceBackend*> self_;
  std::string algorithm_ = "nccl";  ///< of the latest collective call
  std::uint8_t nccl_id_ = 0;        ///< the algorithms in call signatures
  std::uint8_t direct_id_ = 0;
  std::uint8_t windows_id_ = 0;  ///< of the direct path, in windows
  std::uint64_t begun_ = 0;      ///< calls queued
  std::uint64_t finished_ = 0;   ///< of these, known to be done
  /// Streams with calls not known to be done, and the latest call on each.
  struct Queue {
    CudaStream stream = nullptr;
    std::uint64_t latest = 0;
  };
  std::vector<Queue> queues_;
  std::atomic<int> latest_sender_{-1};  ///< of the latest send_recv
  NcclWatchdog watchdog_;               ///< last member: it is destroyed before all that it uses
};

}  // namespace tutti::device
