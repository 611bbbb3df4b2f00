#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "identity.hpp"
#include "nccl_call.hpp"
#include "opened_path.hpp"

namespace tutti::preload {

/// How many calls of each kind were served, and how many handed on, by reason.
struct CallCounts {
  std::array<std::atomic<std::uint64_t>, call_kinds> served{};
  std::array<std::array<std::atomic<std::uint64_t>, obstacles>, call_kinds> handed_on{};
  [[nodiscard]] bool any() const;
};

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

  /// Looks for calls that do not return. From one thread, about every 100 ms.
  void watch();

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] const device::CudaCalls& cuda() const { return parts_.opened.context->cuda(); }
  [[nodiscard]] device::CudaResult order(CudaStream stream);
  [[nodiscard]] device::CudaResult order_in_graph(CudaStream stream, unsigned long long capture);
  /// The capture that the stream is in; empty if it is in none.
  [[nodiscard]] std::optional<unsigned long long> capture_of(CudaStream stream) const;
  void record(CudaStream stream);
  void record_in_graph(CudaStream stream, unsigned long long capture);
  void fail(const std::string& sentence);
  /// What may wait for another rank.
  enum class Pending : std::uint8_t { nothing, graphs, calls };
  [[nodiscard]] Pending look_at_calls();
  /// Whether calls, which have not returned for this time, wait for a rank that has ended.
  [[nodiscard]] bool are_lost(Pending pending, Clock::duration waited);
  [[nodiscard]] std::string latest_call() const;
  [[nodiscard]] std::string missing_ranks() const;
  [[nodiscard]] std::string ended_ranks() const;

  Parts parts_;
  Log log_;
  CallCounts counts_;
  std::uint64_t splits_ = 0;
  std::atomic<const std::string*> failure_{nullptr};

  std::mutex mutex_;  ///< protects what follows, and the path
  std::optional<unsigned long long> latest_stream_;
  device::CudaEvent handed_on_ = nullptr;  ///< recorded after each call that NCCL takes
  bool is_recorded_ = false;
  CudaStream due_on_ = nullptr;  ///< where to record it once NCCL has queued the call
  std::atomic<bool> is_due_{false};
  /// Of the latest call in a graph.
  device::CudaEvent in_graph_ = nullptr;
  CudaStream graph_stream_ = nullptr;
  std::optional<unsigned long long> graph_capture_;
  std::atomic<bool> has_captured_{false};
  std::atomic<bool> is_handing_on_{false};  ///< a call is inside NCCL, or in a group
  std::atomic<std::uint64_t> made_{0};      ///< calls, served and handed on

  // Used by watch() only.
  std::uint64_t made_and_done_ = 0;
  std::uint64_t marker_ = 0;  ///< changes while calls return
  Clock::time_point marked_at_;
  std::optional<Clock::time_point> ended_at_;  ///< a peer's process
  bool is_reported_ = false;
  int looks_ = 0;
};

}  // namespace tutti::preload
