#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/resolve.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/operation.hpp"
#include "tutti/options.hpp"
#include "tutti/types.hpp"

/// What the subcommands take; docs/guide.md and `--help` say what each means.
namespace tutti::app {

struct JobOptions {
  /// Called in place of making a communicator, where it is set: for who looks at what comes before.
  std::function<void(Bootstrap&)> instead_of_communicator;
  std::optional<BackendChoice> backend;  ///< empty: as TUTTI_BACKEND says
  std::chrono::nanoseconds timeout{};    ///< 0: as TUTTI_TIMEOUT says
  bool verbose = false;
  launch::Words launch;   ///< --init, --rank and their like, as they were typed
  bool insecure = false;  ///< serve other hosts without a secret
};

/// Of those that move data.
struct DataOptions : JobOptions {
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  std::string json;  ///< file, "-" for standard output
};

struct OperationOptions : DataOptions {
  std::size_t bytes = std::size_t{4} << 20;
  bool in_place = false;
  int repeat = 1;
  std::string algorithm;
  bool quiet = false;
};

enum class BenchFormat : std::uint8_t { table, nccl_tests, osu };

struct BenchOptions : DataOptions {
  std::vector<Operation> operations;
  std::vector<std::string> peers;
  std::vector<std::size_t> sizes{4, std::size_t{1} << 10, std::size_t{64} << 10,
                                 std::size_t{1} << 20, std::size_t{16} << 20};
  bool out_of_place = false;
  bool allocated = false;
  bool graph = false;
  int warmup = 5;
  int iterations = 0;  ///< 0: as many as `min_time` gives
  std::chrono::nanoseconds min_time = std::chrono::milliseconds(500);
  BenchFormat format = BenchFormat::table;
  std::string csv;
};

struct DoctorOptions : JobOptions {
  bool measure = false;
  std::string json;
};

/// Of the dry run, which is no job.
struct HostfileOptions {
  std::string file;  ///< "-" for standard input
  int ranks = 0;     ///< 0: as many as there are slots
  std::string map_by = "slot";
  std::string mpi = "openmpi5";  ///< whose rules
  int cores = 0;                 ///< of a host that is bare; 0: as on this machine
  std::string json;
};

}  // namespace tutti::app
