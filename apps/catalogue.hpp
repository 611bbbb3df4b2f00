#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tutti/operation.hpp"

namespace tutti::app {

/// Name and help texts of an operation.
struct CatalogueEntry {
  Operation operation;
  const char* name;         ///< "fan-out"
  const char* description;  ///< for --help
  const char* example;
  const char* root;  ///< meaning of --root; null if the operation has no root
  const char* size;  ///< meaning of --size; null if no data is moved
};

[[nodiscard]] std::span<const CatalogueEntry> catalogue();
/// The entry with that name, or null. "all-reduce", "all_reduce" and "allreduce" are the same.
[[nodiscard]] const CatalogueEntry* find_entry(std::string_view name);
/// The name with hyphens: "all-reduce".
[[nodiscard]] std::string shown_name(Operation operation);

}  // namespace tutti::app
