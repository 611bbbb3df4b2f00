#pragma once

#include "base/environment.hpp"
#include "doctor/facts.hpp"

namespace tutti::app::doctor {

/// Collects facts about this process and its host. Takes up to 2 s if the name server does not
/// answer. Facts that can't be read keep their default. The caller fills in the clock, the
/// addresses, and the results of probes.
[[nodiscard]] Facts gather_facts(const EnvironmentMap& map, const Environment& environment);

/// Reads the 16 bytes of a neighbour's token by process_vm_readv() and compares them. Returns why
/// it failed; empty if it worked.
[[nodiscard]] std::string try_single_copy(const Facts& neighbour);

}  // namespace tutti::app::doctor
