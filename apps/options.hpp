#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "tutti/options.hpp"
#include "tutti/types.hpp"

namespace tutti::app {

/// What the operations' subcommands take; docs/guide.md and `--help` say what each means.
struct OperationOptions {
  std::optional<BackendChoice> backend;  ///< empty: as TUTTI_BACKEND says
  std::size_t bytes = std::size_t{4} << 20;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  std::chrono::nanoseconds timeout{};  ///< 0: as TUTTI_TIMEOUT says
  int repeat = 1;
  std::string algorithm;
  std::string json;  ///< file, "-" for standard output
  bool quiet = false;
  bool verbose = false;
};

}  // namespace tutti::app
