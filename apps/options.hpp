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

/// Options of the subcommands. docs/guide.md and `--help` describe them.
namespace tutti::app {

struct JobOptions {
  /// If set, it is called instead of creating a communicator. `doctor` uses this to check what
  /// comes before.
  std::function<void(Bootstrap&)> instead_of_communicator;
  std::optional<BackendChoice> backend;  ///< empty: from TUTTI_BACKEND
  std::chrono::nanoseconds timeout{};    ///< 0: from TUTTI_TIMEOUT
  bool verbose = false;
  launch::Words launch;   ///< --init, --rank etc. as text
  bool insecure = false;  ///< accept connections from other hosts without a secret
};

/// Options of the subcommands that move data.
struct DataOptions : JobOptions {
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  std::string json;  ///< path, "-" for standard output
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
  std::vector<std::string> baselines;
  std::vector<std::size_t> sizes{4, std::size_t{1} << 10, std::size_t{64} << 10,
                                 std::size_t{1} << 20, std::size_t{16} << 20};
  bool out_of_place = false;
  bool allocated = false;
  bool graph = false;
  int warmup = 5;
  int iterations = 0;  ///< 0: as many as fit into `min_time`
  std::chrono::nanoseconds min_time = std::chrono::milliseconds(500);
  BenchFormat format = BenchFormat::table;
  std::string csv;
};

struct TuneOptions : JobOptions {
  std::string out;  ///< the tuning file; empty: that of the environment
  /// For each operation and size.
  std::chrono::nanoseconds min_time = std::chrono::milliseconds(60);
  std::size_t max_bytes = std::size_t{64} << 20;  ///< of what is measured
};

struct DoctorOptions : JobOptions {
  bool measure = false;
  std::string json;
};

/// Options of `tutti hostfile`, which starts no job.
struct HostfileOptions {
  std::string file;  ///< "-" for standard input
  int ranks = 0;     ///< 0: one per slot
  std::string map_by = "slot";
  std::string mpi = "openmpi5";  ///< whose mapping rules
  int cores = 0;  ///< slots of a host that is listed without slots; 0: this machine's cores
  std::string json;
};

}  // namespace tutti::app
