#pragma once

#include <string_view>

namespace tutti {

/// Last part of each message about a deadline in set-up. tutti/mpi.hpp, which sees public headers
/// only, has a copy.
inline constexpr std::string_view longer_timeout_remedy =
    "set a longer timeout (TUTTI_TIMEOUT, --timeout or Options::timeout)";

}  // namespace tutti
