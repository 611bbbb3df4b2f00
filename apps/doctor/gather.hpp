#pragma once

#include "base/environment.hpp"
#include "doctor/facts.hpp"

namespace tutti::app::doctor {

/// Looks at this process and its host; takes up to 2 s where the name server does not answer. What
/// can't be found out stays at its default. The clock, the listening sockets and what comes of
/// connections are filled in by others.
[[nodiscard]] Facts gather_facts(const EnvironmentMap& map, const Environment& environment);

/// Reads 16 bytes of a neighbour's memory and compares them; empty if it may, else why not.
[[nodiscard]] std::string try_single_copy(const Facts& neighbour);

}  // namespace tutti::app::doctor
