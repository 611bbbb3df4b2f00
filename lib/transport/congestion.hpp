#pragma once

#include <string>

namespace tutti::transport {

/// Disables Nagle's algorithm and sets the congestion control to `congestion` or, if empty, to the
/// system's, but never bbr by default. Throws Error{usage} if this process may not use it.
void tune_socket(int fd, const std::string& congestion);
/// Keeps the bytes short that the kernel has taken and not yet sent: replies wait behind them.
void limit_unsent(int fd);
/// The check of tune_socket() up front, since links are made late or never.
void require_congestion(const std::string& congestion);

}  // namespace tutti::transport
