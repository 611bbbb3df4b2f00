#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "call_counts.hpp"
#include "call_watch.hpp"
#include "identity.hpp"
#include "nccl_call.hpp"
#include "opened_path.hpp"
#include "stream_order.hpp"

namespace tutti::preload {

/// One rank of an NCCL communicator of the program: serves calls by its direct path, and keeps them
/// in order with those that NCCL takes.
class NcclCommunicator {
 public:
  struct Parts {
    NcclRank who;
    std::optional<Identity> identity;
    OpenedPath opened;
    LogLevel log_level = LogLevel::warning;
    std::chrono::nanoseconds timeout{};  ///< after which a call is reported that does not return
  };

  explicit NcclCommunicator(Parts parts);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  /// Queues the end of the direct path behind its calls, and waits for nobody.
  ~NcclCommunicator();

  [[nodiscard]] const NcclRank& who() const { return parts_.who; }
  [[nodiscard]] const CallCounts& counts() const { return counts_; }
  [[nodiscard]] bool has_path() const { return parts_.opened.path != nullptr; }
  [[nodiscard]] const std::string& no_path_because() const { return parts_.opened.reason; }
  /// Of the communicator that the next split makes for `color`; empty if this one has none. Once
  /// for each split, by all ranks.
  [[nodiscard]] std::optional<Identity> next_child(int color);

  /// Empty: serve() takes the call. The same on all ranks.
  [[nodiscard]] std::optional<Obstacle> obstacle(const NcclCall& call) const;
  /// Queues a call that has no obstacle.
  [[nodiscard]] NcclResult serve(const NcclCall& call);
  /// Before a call is handed on: it comes after the calls that were served.
  void before_handed_on(const NcclCall& call, Obstacle obstacle);
  /// After it, or at the end of its group, with NCCL's result: later calls come after it.
  void after_handed_on(CudaStream stream, NcclResult result);
  /// NCCL has queued what a non-blocking communicator was still about to queue.
  void after_progress();

  /// Ends the waits of its kernels, whose calls are then without a result. From any thread.
  void abort() noexcept;
  /// Why its calls fail; null while they don't. The text is never freed.
  [[nodiscard]] const std::string* failure() const noexcept { return failure_.load(); }

  /// Whether they fail because of an error, not because the program has aborted.
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_.load(); }
  /// Tells the other ranks that this one ends in order.
  void leave() noexcept;

  /// Looks for calls that do not return. From one thread, about every 100 ms; it looks once a
  /// second until a rank has ended.
  void watch();

 private:
  [[nodiscard]] const device::CudaCalls& cuda() const { return parts_.opened.context->cuda(); }
  void fail(const std::string& sentence);
  /// The device must be current.
  [[nodiscard]] SeenCalls look_at_calls(bool has_open);
  [[nodiscard]] std::string latest_call() const;
  [[nodiscard]] std::string missing_ranks() const;
  [[nodiscard]] std::string ended_ranks() const;
  [[nodiscard]] bool has_lost_rank() const;

  Parts parts_;
  Log log_;
  CallCounts counts_;
  std::uint64_t splits_ = 0;
  std::atomic<const std::string*> failure_{nullptr};
  std::atomic<bool> has_failed_{false};

  std::mutex mutex_;  ///< one call at a time: protects order_, due_on_, and what queues on the path
  std::unique_ptr<StreamOrder> order_;
  CudaStream due_on_ = nullptr;  ///< of a call that a non-blocking communicator has yet to queue

  // What watch() reads without the mutex, which a call keeps while it waits for room in a stream.
  std::atomic<std::uint64_t> made_{0};      ///< calls outside of graphs, once they are queued
  std::atomic<bool> is_handing_on_{false};  ///< a call is inside NCCL, or in a group
  std::atomic<bool> is_due_{false};         ///< due_on_ is set
  std::atomic<bool> has_captured_{false};

  // Used by watch() only.
  CallWatch watch_;
  std::uint64_t complete_ = 0;  ///< of made_
  int looks_ = 0;
};

}  // namespace tutti::preload
