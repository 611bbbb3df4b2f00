#pragma once

#include <string>
#include <string_view>

#include "base/environment.hpp"

/// What to do, in the words of the launcher that started the job.
namespace tutti::app::doctor {

/// The launcher that started this process, as launch::known_launchers() names it; empty where none
/// has left a trace.
[[nodiscard]] std::string launcher_in(const EnvironmentMap& map);

/// How all ranks get a variable: "NAME", or "NAME=value" for a value of the doctor's own.
[[nodiscard]] std::string hand_on(std::string_view launcher, std::string_view variable);
/// Why only some ranks may have a variable, to follow a sentence; empty where the launcher is no
/// reason.
[[nodiscard]] std::string_view why_not_handed_on(std::string_view launcher);
/// How ranks are let run on any core. `or_else`: what Open MPI offers besides.
[[nodiscard]] std::string unbind(std::string_view launcher, std::string_view or_else);

}  // namespace tutti::app::doctor
