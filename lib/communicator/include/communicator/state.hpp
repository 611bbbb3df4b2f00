#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "communicator/arguments.hpp"
#include "communicator/device_provider.hpp"
#include "communicator/host_backend.hpp"
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

  /// Bits: channels of this host's shared memory that a new communicator may have.
  [[nodiscard]] std::uint32_t free_channels() const {
    return segment ? segment->free_channels() : 0;
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

/// What one communicator owns: the device path goes before the host path that carries its
/// agreements.
struct Communicator::State {
  /// The job's own communicator; collective over `bootstrap`.
  State(std::shared_ptr<Job> the_job, Bootstrap& bootstrap);
  /// The communicator of a job of survivors, `before` being that of all. Not collective.
  State(std::shared_ptr<Job> the_job, const State& before);
  /// A communicator of some of `parent`'s ranks.
  State(const State& parent, control::Group group);

  [[nodiscard]] CallSettings settings_of(const CallOptions& options,
                                         Memory memory = Memory::host) const;
  /// The same for collectives, where TUTTI_ALGORITHM counts too.
  [[nodiscard]] CallSettings collective_settings_of(const CallOptions& options,
                                                    Memory memory) const;
  [[nodiscard]] const control::Group& group() const { return host->group(); }
  /// Who serves a call on buffers there.
  [[nodiscard]] Backend& backend(Memory memory);
  /// A collective step without buffers that is no operation of a user's.
  void run_internal(Operation operation, const CallOptions& options);
  /// The device path, made at the first use in a communicator that was split off; Error{usage} that
  /// says why where there is none.
  [[nodiscard]] Backend& device();

  std::shared_ptr<Job> job;
  std::vector<RankInfo> ranks;
  std::unique_ptr<HostBackend> host;
  CheckedArguments arguments;
  const Backend* latest = nullptr;  ///< who made the latest call
  bool has_device_path = false;
  DevicePath device_path;
};

/// The environment, with what the program asks for in its place. Throws Error{usage}.
[[nodiscard]] Environment settings_for(const Options& options, const EnvironmentMap& map);

}  // namespace tutti
