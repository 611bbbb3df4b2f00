#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What a hostfile says: the forms of Open MPI 4 and 5 (`node1 slots=2 max_slots=4`, `^node1`) and
/// of MPICH (`node1:2`). Pure functions of the text.
namespace tutti::hostfile {

/// A host as a hostfile names it, with all that its lines say of it.
struct HostEntry {
  std::string name;          ///< or address, without brackets
  std::string user;          ///< to log in as; empty: the same as here
  std::optional<int> slots;  ///< empty: the host is named once and bare, its cores count
  std::optional<int> max_slots;
  std::optional<int> port;  ///< of ssh
  int line = 0;             ///< of its first mention, from 1
};

/// The hosts in the order of their first mention, without those that `^` excludes; at least one.
/// A host that is named bare k > 1 times has k slots; counts of MPICH's form add up. Throws
/// Error{usage}: "file:line: sentence". `notes` gets what is understood here but not by every
/// launcher.
[[nodiscard]] std::vector<HostEntry> parse_hostfile(std::string_view text, const std::string& file,
                                                    std::vector<std::string>* notes = nullptr);

}  // namespace tutti::hostfile
