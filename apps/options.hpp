#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tutti/types.hpp"

namespace tutti::app {

enum class BackendChoice : std::uint8_t { automatic, cpu, nccl };

/// What the operations' subcommands take; docs/guide.md and `--help` say what each means.
struct OperationOptions {
  BackendChoice backend = BackendChoice::automatic;
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
