#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "base/fault_injection.hpp"
#include "base/log.hpp"
#include "base/wait_policy.hpp"
#include "communicator/device_provider.hpp"
#include "control/plane.hpp"
#include "engine/call_checker.hpp"
#include "engine/progress_engine.hpp"
#include "transport/links.hpp"
#include "transport/segment_setup.hpp"
#include "transport/shared_segment.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// What all communicators of a process share: who is there, and the links to them. Members go in
/// the reverse order of their making: the progress engine before the links that it moves, the links
/// before the control plane that says goodbye.
struct Job {
  /// Set-up, collective over `bootstrap`.
  Job(Bootstrap& bootstrap, const Options& options, const EnvironmentMap& map,
      std::shared_ptr<DeviceProvider> device_provider);
  /// The job of some of `before`'s ranks, who meet as `exchanged` says; connect() follows.
  Job(const Job& before, rendezvous::PeerExchange exchanged, Deadline deadline);
  /// Throws the agreed failure where this rank can start no control thread: the others hear it.
  void require_thread(Deadline deadline);
  /// Shares memory with those of this host who were left, once the control plane stands.
  void share_memory_anew(Deadline deadline);
  void take_segment(std::shared_ptr<transport::SharedSegment> shared);
  /// Makes the links, once the control plane stands.
  void connect();

  /// Waits a little for the report of a failure. A rank that has died in set-up comes for no memory
  /// either, and its death is what people must hear of: agreeing on it takes some tens of
  /// milliseconds.
  [[nodiscard]] bool fails_soon() const;
  /// Bits: channels of this host's shared memory that a new communicator may have.
  [[nodiscard]] std::uint32_t free_channels() const {
    if (segment) return segment->free_channels();
    // A rank without others on its host needs none.
    const auto& peers = plane->peers();
    return peers.place_of(peers.rank()).local_size == 1 ? UINT32_MAX : 0;
  }

  Environment environment;
  Log::Sink sink;
  std::function<void()> while_waiting;
  Log log;
  InjectedFaults faults;
  std::shared_ptr<DeviceProvider> devices;
  std::vector<RankInfo> ranks;
  std::unique_ptr<control::Plane> plane;
  std::string no_thread_because;  ///< set where the plane of survivors has no thread
  /// What the ranks of this host share; null where they don't.
  std::shared_ptr<transport::SharedSegment> segment;
  WaitPolicy waits{false};  ///< set by connect()
  std::unique_ptr<engine::CallChecker> checker;
  std::unique_ptr<transport::Links> links;
  std::unique_ptr<engine::ProgressEngine> progress_engine;
  std::string phases;
  /// What all members of the communicator that is being made have free.
  std::uint32_t agreed_channels = 0;
  std::uint32_t next_communicator = 1;  ///< no communicator that this rank is in has it or more
  /// Jobs of survivors that have lost ranks in their turn. They last until one lives, since a
  /// goodbye in one of them would say that a rank does not go on.
  std::vector<std::shared_ptr<Job>> attempts;
  bool shares_memory = false;  ///< or did before a loss
  std::optional<transport::SegmentSetup>
      segment_setup;       ///< of a job of survivors, until it has a segment
  bool is_shrunk = false;  ///< its survivors are in another job
};

/// The environment, with what the program asks for in its place. Throws Error{usage}.
[[nodiscard]] Environment settings_for(const Options& options, const EnvironmentMap& map);

}  // namespace tutti
