#pragma once

#include <string>

#include "pattern.hpp"

namespace tutti::app {

/// What this rank did, with line ends between sentences: "received 4 MiB from rank 0, verified".
[[nodiscard]] std::string sentences_of(const Problem& problem, const Wrong& wrong);

}  // namespace tutti::app
