#pragma once

#include <string_view>

/// The command's standard streams. Nothing else in apps/ writes to them.
namespace tutti::app {

/// Must run first in main(). Opens standard descriptors that the caller has closed on /dev/null:
/// else a socket could get the number, and output would go to a peer. Lets a write to a closed pipe
/// fail with EPIPE: SIGPIPE would kill the process, and the other ranks would report a lost rank.
void prepare_standard_streams();

/// Writes all of `text` to standard output. Blocks while a reader is slow, even on a non-blocking
/// pipe. Throws Error{system} if a write fails.
void print(std::string_view text);

/// Writes to standard error, as far as that succeeds. Never throws: there is no other stream for
/// the error.
void print_error_text(std::string_view text) noexcept;

/// Writes "tutti: SENTENCE" to standard error.
void print_error(std::string_view sentence) noexcept;

}  // namespace tutti::app
