#pragma once

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
  class SetUp {
   public:
    /// `identity`: none where this rank can't know it. Registers if this process may have a direct
    /// path.
    SetUp(Communicators& all, std::optional<Identity> identity);
    SetUp(const SetUp&) = delete;
    SetUp& operator=(const SetUp&) = delete;
    ~SetUp();
    /// NCCL's set-up has returned. Collective over the ranks that have registered.
    void finish(NcclResult result, const NcclComm* comm);

   private:
    Communicators& all_;
    std::optional<Identity> identity_;
    std::unique_ptr<HostSegment> segment_;
    std::string reason_;
  };

  /// Null if `comm` is unknown.
  [[nodiscard]] std::shared_ptr<NcclCommunicator> find(NcclComm comm) const;
  /// The same, and forgets it; the watchdog uses it no more.
  [[nodiscard]] std::shared_ptr<NcclCommunicator> take(NcclComm comm);
  /// The text of the latest failure of any communicator; null without one.
  [[nodiscard]] const std::string* failure() const;
  /// Prints the table of calls of a communicator, if TUTTI_NCCL_REPORT asks for it.
  void report(const NcclCommunicator& communicator) const;
  /// The process ends: reports what has not been destroyed, and leaves CUDA alone.
  void end();

 private:
  Communicators();
  [[nodiscard]] std::string why_not_registered() const;
  void add(NcclComm comm, std::shared_ptr<NcclCommunicator> communicator);
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
  std::mutex watching_;  ///< held during a round of the watchdog
  bool is_watched_ = false;
  bool is_over_ = false;
};

}  // namespace tutti::preload
