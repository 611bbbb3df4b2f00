#pragma once

#include <string_view>

/// The command's standard streams: nothing else in apps/ writes to them.
namespace tutti::app {

/// The first thing that main does. A standard descriptor that the caller has closed would go to the
/// next socket, and text would then be sent to a peer: it is opened on /dev/null. A reader that has
/// gone makes a write fail and no longer kills the process, whose peers would report it as lost.
void prepare_standard_streams();

/// Writes all of `text` to standard output, and waits for a reader that is slow, on a non-blocking
/// pipe too. Throws Error{system} where a part of it is lost.
void print(std::string_view text);

/// Writes to standard error as much as it takes. Never throws: there is nowhere left to say so.
void print_error_text(std::string_view text) noexcept;

/// "tutti: SENTENCE" on standard error.
void print_error(std::string_view sentence) noexcept;

}  // namespace tutti::app
