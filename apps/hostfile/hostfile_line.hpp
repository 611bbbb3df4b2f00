#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The inner parts of the hostfile parser: from text to lines, from a line to what it says.
namespace tutti::hostfile {

/// The words of a line that has some, without comments. "slots = 2" is one word, "slots=2".
struct HostfileLine {
  int number = 0;  ///< from 1
  std::vector<std::string> words;
};

/// Takes away a byte-order mark, ends of lines of any kind, and comments (#, //, /* */). Throws
/// Error{usage} where the text is none, or a comment does not end.
[[nodiscard]] std::vector<HostfileLine> split_hostfile(std::string_view text,
                                                       const std::string& file);

/// What one line says.
struct HostfileEntry {
  bool excluded = false;  ///< ^host
  std::string name;
  std::string user;
  std::optional<int> slots;   ///< slots=N
  std::optional<int> counts;  ///< host:N
  std::optional<int> max_slots;
  std::optional<int> port;
};

/// Throws Error{usage}: "file:line: sentence".
[[nodiscard]] HostfileEntry read_hostfile_line(const HostfileLine& line, const std::string& file);

}  // namespace tutti::hostfile
