#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Parses the hostfiles of Open MPI 4 and 5 (`node1 slots=2 max_slots=4`, `^node1`) and MPICH
/// (`node1:2`). Pure functions of the text.
namespace tutti::hostfile {

/// A host with the settings from all of its lines.
struct HostEntry {
  std::string name;          ///< name or address, without brackets
  std::string user;          ///< SSH user; empty: the same as here
  std::optional<int> slots;  ///< empty: listed once without slots; its cores count
  std::optional<int> max_slots;
  std::optional<int> port;  ///< SSH port
  int line = 0;             ///< of the first mention, from 1
};

/// Returns the hosts in the order of their first mention, without those that `^` excludes; at least
/// one. A host listed k > 1 times without slots has k slots. Counts in MPICH's form add up. Throws
/// Error{usage}: "file:line: sentence". `notes` receives syntax that not every launcher accepts.
[[nodiscard]] std::vector<HostEntry> parse_hostfile(std::string_view text, const std::string& file,
                                                    std::vector<std::string>* notes = nullptr);

}  // namespace tutti::hostfile
