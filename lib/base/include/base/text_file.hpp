#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// The content of a file such as those of /proc and /sys, whose size is unknown before they are
/// read. Empty if it can't be opened or read; errno then says why. Cheaper than a stream: set-up
/// reads a dozen of them on each rank.
[[nodiscard]] std::optional<std::string> read_text_file(const char* path);

/// Removes the first line of `text`, with its end, and returns it without.
std::string_view take_line(std::string_view& text);
/// Removes blanks and the word behind them from `text` and returns the word; empty at its end.
std::string_view take_word(std::string_view& text);

}  // namespace tutti
