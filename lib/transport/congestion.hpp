#pragma once

#include <string>

namespace tutti::transport {

/// Of a data connection: no waiting for more to send, and `congestion` as its congestion control,
/// or the system's where that is empty, but never bbr by default. Throws Error{usage} where this
/// process may not use it.
void tune_socket(int fd, const std::string& congestion);
/// The same check before a link is made, which may be late or never.
void require_congestion(const std::string& congestion);

}  // namespace tutti::transport
