#pragma once

#include <string>
#include <string_view>

#include "base/environment.hpp"

/// Remedies, with the options of the launcher that started the job.
namespace tutti::app::doctor {

/// The launcher that started this process, as launch::known_launchers() names it; empty where none
/// has left a trace.
[[nodiscard]] std::string launcher_in(const EnvironmentMap& map);

/// How to pass a variable to all ranks: "NAME", or "NAME=value" for a value that the doctor
/// suggests.
[[nodiscard]] std::string pass_variable(std::string_view launcher, std::string_view variable);
/// Why only some ranks may have a variable, to follow a sentence; empty where the launcher is no
/// reason.
[[nodiscard]] std::string_view why_not_passed(std::string_view launcher);
/// How to start ranks without core binding. `or_else`: an alternative under Open MPI.
[[nodiscard]] std::string unbind(std::string_view launcher, std::string_view or_else);

}  // namespace tutti::app::doctor
