#pragma once

#include <string>

namespace tutti::transport {

/// Disables Nagle's algorithm and sets the congestion control to `congestion` or, if empty, to the
/// system's, but never bbr by default. Throws Error{usage} if this process may not use it.
void tune_socket(int fd, const std::string& congestion);
/// The same check up front, since links are made late or never.
void require_congestion(const std::string& congestion);

}  // namespace tutti::transport
