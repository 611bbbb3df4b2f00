#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "base/environment.hpp"
#include "device/library.hpp"
#include "direct/closing.hpp"
#include "nccl_communicator.hpp"

namespace tutti::preload {

/// The process's NCCL communicators, as far as this library has seen their set-up, and the thread
/// that watches them.
class Communicators {
 public:
  /// The only one, never destroyed: NCCL's functions have no place for it, and threads of the
  /// program may call them while the process ends.
  [[nodiscard]] static Communicators& instance();

  /// A communicator's set-up, from before NCCL's until after it.
  struct SetUp {
    std::optional<Identity> identity;
    std::unique_ptr<HostSegment> segment;  ///< null: no direct path
    std::string reason;                    ///< why there is no segment
  };
  /// Before NCCL's set-up. `identity`: none where this rank can't know it. Registers if this
  /// process may have a direct path.
  [[nodiscard]] SetUp begin(std::optional<Identity> identity);
  /// After NCCL's set-up has returned `result`. Collective over the ranks that have registered; for
  /// a non-blocking communicator later, when finish_pending() finds it ready.
  void finish(SetUp set_up, NcclResult result, const NcclComm* made);

  /// Null if `comm` is unknown.
  [[nodiscard]] std::shared_ptr<NcclCommunicator> find(NcclComm comm);
  /// The same, and forgets it; the watchdog uses it no more.
  [[nodiscard]] std::shared_ptr<NcclCommunicator> take(NcclComm comm);
  /// `state` is that of a communicator by ncclCommGetAsyncError. If that ends the set-up of a
  /// non-blocking one, finishes it. Returns the state that the program sees.
  [[nodiscard]] NcclResult finish_pending(NcclComm comm, NcclResult state);
  /// The text of the latest failure of any communicator; null without one.
  [[nodiscard]] const std::string* failure() const;
  /// Prints the table of calls of a communicator, if TUTTI_NCCL_REPORT asks for it.
  void report(const NcclCommunicator& communicator) const;
  /// The process ends: reports what has not been destroyed, and leaves CUDA alone.
  void end();

 private:
  Communicators();
  [[nodiscard]] std::string why_not_registered() const;
  void open(SetUp set_up, NcclComm comm);
  void add(NcclComm comm, std::shared_ptr<NcclCommunicator> communicator);
  void drop_pending(NcclComm comm);
  /// Throws Error{system} if there is no thread for the watchdog.
  void start_watching();
  void watch();
  [[nodiscard]] std::vector<std::shared_ptr<NcclCommunicator>> all() const;

  Environment environment_;
  std::string bad_environment_;
  std::string report_;
  std::shared_ptr<const device::Library<device::CudaCalls>> cuda_;
  std::shared_ptr<device::direct::ClosingStaging> closing_;
  int pid_;  ///< a forked child has none of this

  mutable std::shared_mutex mutex_;
  std::unordered_map<NcclComm, std::shared_ptr<NcclCommunicator>> known_;
  /// Non-blocking communicators whose set-up was not seen to end. Empty while a thread finishes
  /// one.
  std::unordered_map<NcclComm, std::optional<SetUp>> pending_;
  std::atomic<int> pending_count_{0};
  std::timed_mutex watching_;  ///< held during a round of the watchdog
  bool is_watched_ = false;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> has_warned_{false};  ///< of an unusable tuning file
};

}  // namespace tutti::preload
