#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "communicator/device_provider.hpp"
#include "control/plane.hpp"
#include "engine/call_checker.hpp"
#include "transport/links.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// What a communicator owns. Members go in the reverse order of their making: the device path
/// before the host path that carries its agreements, the links before the control plane that says
/// goodbye.
struct Communicator::State {
  /// Set-up, collective over `bootstrap`.
  State(Bootstrap& bootstrap, const Options& options, const EnvironmentMap& map,
        DeviceProvider& devices);

  [[nodiscard]] CallSettings settings_of(const Call& call) const;
  /// The same for collectives, where TUTTI_ALGORITHM counts too.
  [[nodiscard]] CallSettings collective_settings_of(const Call& call) const;
  void require_rank(const char* what, int rank) const;
  /// The device path; Error{usage} that says why where there is none.
  [[nodiscard]] Backend& device() const;

  Environment environment;
  Log log;
  std::vector<RankInfo> ranks;
  std::unique_ptr<control::Plane> plane;
  std::unique_ptr<engine::CallChecker> checker;
  std::unique_ptr<transport::Links> links;
  std::unique_ptr<Backend> host;
  DevicePath device_path;
  std::string phases;
};

/// The environment, with what the program asks for in its place. Throws Error{usage}.
[[nodiscard]] Environment settings_for(const Options& options, const EnvironmentMap& map);

}  // namespace tutti
