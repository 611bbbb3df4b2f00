#pragma once

#include <string>

#include "pattern.hpp"

namespace tutti::app {

/// The report of this rank, sentences separated by line ends: "received 4 MiB from rank 0,
/// verified".
[[nodiscard]] std::string rank_lines_of(const CallSpec& spec, const CheckResult& wrong);

}  // namespace tutti::app
