#pragma once

#include <string>
#include <string_view>

namespace tutti::app {

/// Reads a whole file; "-" is standard input. Throws Error{usage} with `what` it is ("the
/// hostfile"), the path and the reason.
[[nodiscard]] std::string read_file(const std::string& path, std::string_view what);

}  // namespace tutti::app
