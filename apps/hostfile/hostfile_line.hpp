#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Internals of the hostfile parser: splits text into lines and parses a line.
namespace tutti::hostfile {

/// A non-empty line, split into words, without comments. "slots = 2" is one word, "slots=2".
struct HostfileLine {
  int number = 0;  ///< line number from 1
  std::vector<std::string> words;
};

/// Removes a byte-order mark and comments (#, //, /* */), and accepts all kinds of line ends.
/// Throws Error{usage} if the text is binary or a comment is not closed.
[[nodiscard]] std::vector<HostfileLine> split_hostfile(std::string_view text,
                                                       const std::string& file);

/// Content of one line.
struct HostfileEntry {
  bool excluded = false;  ///< from ^host
  std::string name;
  std::string user;
  std::optional<int> slots;   ///< from slots=N
  std::optional<int> counts;  ///< from host:N
  std::optional<int> max_slots;
  std::optional<int> port;
};

/// Throws Error{usage}: "file:line: sentence".
[[nodiscard]] HostfileEntry read_hostfile_line(const HostfileLine& line, const std::string& file);

}  // namespace tutti::hostfile
