#pragma once

#include <string>
#include <string_view>

#include "tutti/error.hpp"

namespace tutti {

/// "Connection refused (errno 111)".
[[nodiscard]] std::string errno_text(int number);

/// Error{system}: "`what`: Too many open files (errno 24)".
[[nodiscard]] Error system_error(std::string_view what, int number);

}  // namespace tutti
