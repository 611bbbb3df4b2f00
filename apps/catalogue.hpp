#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tutti/operation.hpp"

namespace tutti::app {

/// An operation as the command shows it.
struct CatalogueEntry {
  Operation operation;
  const char* name;         ///< "fan-out"
  const char* description;  ///< for --help
  const char* example;
  const char* root;  ///< what --root means; null where there is none
  const char* size;  ///< what --size means; null if no data is moved
};

[[nodiscard]] std::span<const CatalogueEntry> catalogue();
/// The entry of that name ("all-reduce"; "all_reduce" and "allreduce" too), or null.
[[nodiscard]] const CatalogueEntry* find_entry(std::string_view name);
/// As people write it: "all-reduce".
[[nodiscard]] std::string shown_name(Operation operation);

}  // namespace tutti::app
