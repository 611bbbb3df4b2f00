#pragma once

#include <string>
#include <string_view>

#include "base/environment.hpp"

/// Remedies in terms of the launcher that started the job.
namespace tutti::app::doctor {

/// The launcher that started this process, by its name in launch::known_launchers(). Empty if no
/// variable identifies it.
[[nodiscard]] std::string launcher_in(const EnvironmentMap& map);

/// The launcher's option that passes a variable to all ranks. `variable` is "NAME", or "NAME=value"
/// for a suggested value.
[[nodiscard]] std::string pass_variable(std::string_view launcher, std::string_view variable);
/// A clause that explains why only some ranks have a variable. Empty if the launcher is not the
/// reason.
[[nodiscard]] std::string_view why_not_passed(std::string_view launcher);
/// The launcher's option that turns off core binding. `or_else` is an alternative under Open MPI.
[[nodiscard]] std::string unbind(std::string_view launcher, std::string_view or_else);

}  // namespace tutti::app::doctor
