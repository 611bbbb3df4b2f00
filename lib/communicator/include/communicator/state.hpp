#pragma once

#include <memory>
#include <vector>

#include "communicator/arguments.hpp"
#include "communicator/device_provider.hpp"
#include "communicator/host_backend.hpp"
#include "communicator/job.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

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

}  // namespace tutti
