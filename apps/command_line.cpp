#include "command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/environment.hpp"
#include "base/shape.hpp"
#include "bench/implementations.hpp"

namespace tutti::app {
namespace {

constexpr int max_ranks = 1 << 24;

/// Returns the value. Throws a usage error that lists the valid values if there is none.
template <class T>
T usable(const std::optional<T>& value, const char* option, const std::string& text,
         const std::string& expected) {
  if (value) return *value;
  throw CLI::ValidationError(fmt::format("invalid {} '{}': expected {}", option, text, expected));
}

using Setter = std::function<void(const std::string& text)>;

void add(CLI::App& command, const char* option, const char* kind, const Setter& set,
         const std::string& help) {
  command.add_option_function<std::string>(option, set, help)->type_name(kind);
}

void add_file(CLI::App& command, const char* option, std::string& file, const std::string& what) {
  command.add_option(option, file, what + " to this file, - for standard output")
      ->type_name("FILE");
}

void add_count(CLI::App& command, const char* option, int& count, int min,
               const std::string& help) {
  command.add_option(option, count, help)
      ->check(CLI::Range(min, 1'000'000).description(""))
      ->type_name("N");
}

template <class Value>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) names.emplace_back(name(static_cast<Value>(i)));
  return names;
}

/// "a, b or c"
std::string any_of(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return fmt::format("{} or {}", fmt::join(first, ", "), names.back());
}

std::optional<Operator> operator_named(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');
  return parse_operator(text);
}

std::size_t size_named(const char* option, const std::string& text) {
  return usable(parse_size(text), option, text, "bytes, or a number with KiB, MiB or GiB");
}

std::chrono::nanoseconds time_named(const char* option, const std::string& text) {
  return usable(parse_duration(text), option, text, "a time such as 60s or 500ms");
}

void add_type(CLI::App& command, DataOptions& options) {
  const auto types = any_of(names_of<Type>(type_count));
  add(
      command, "--type", "TYPE",
      [&options, types](const std::string& text) {
        options.type = usable(parse_type(text), "--type", text, types);
      },
      fmt::format("element type: {} (default f32)", types));
}

void add_operator(CLI::App& command, DataOptions& options) {
  const auto operators = any_of(names_of<Operator>(operator_count));
  add(
      command, "--op", "OPERATOR",
      [&options, operators](const std::string& text) {
        options.op = usable(operator_named(text), "--op", text, operators);
      },
      fmt::format("operator of the reduction: {} (default sum)", operators));
}

void add_root(CLI::App& command, DataOptions& options, const std::string& help) {
  command.add_option("--root", options.root, help + " (default 0)")
      ->check(CLI::Range(0, max_ranks).description(""))
      ->type_name("RANK");
}

std::optional<std::string> baseline_named(const std::string& text) {
  const auto known = bench::baseline_names();
  if (std::find(known.begin(), known.end(), text) == known.end()) return std::nullopt;
  return text;
}

void add_bench_contents(CLI::App& command, BenchOptions& options) {
  std::vector<std::string> names;
  names.reserve(catalogue().size());
  for (const auto& entry : catalogue()) names.emplace_back(entry.name);
  command
      .add_option_function<std::vector<std::string>>(
          "OPERATION",
          [&options, names](const std::vector<std::string>& texts) {
            for (const auto& text : texts) {
              const auto* const entry = find_entry(text);
              if (entry == nullptr) {
                throw CLI::ValidationError(
                    fmt::format("unknown operation '{}': expected {}", text, any_of(names)));
              }
              options.operations.push_back(entry->operation);
            }
          },
          "operations: " + any_of(names))
      ->required()
      ->type_name("");
  const auto baselines = any_of(bench::baseline_names());
  add(
      command, "--vs", "BASELINES",
      [&options, baselines](const std::string& text) {
        options.baselines.clear();
        for (const auto& part : split_list(text)) {
          options.baselines.push_back(
              usable(baseline_named(part), "--vs", text, "a comma-separated list of " + baselines));
        }
      },
      "baselines to compare with, comma-separated: " + baselines);
  add(
      command, "--sizes", "SIZES",
      [&options](const std::string& text) {
        options.sizes.clear();
        for (const auto& part : split_list(text)) {
          options.sizes.push_back(size_named("--sizes", part));
        }
      },
      "comma-separated (default 4,1KiB,64KiB,1MiB,16MiB): one rank's contribution to all-gather "
      "and gather, one rank's result of reduce-scatter and scatter, one rank's input of the "
      "others");
  command.add_flag(
      "--out-of-place", options.out_of_place,
      "separate send and receive buffers (default: in place, except all-to-all and send-recv)");
  command.add_flag("--allocate", options.allocated,
                   "buffers that other ranks access in place: from Communicator::allocate(), on "
                   "GPUs from allocate_device()");
  command.add_flag("--graph", options.graph, "on GPUs: launch the calls as a CUDA graph");
}

void add_min_time(CLI::App& command, std::chrono::nanoseconds& min_time, const std::string& help) {
  add(
      command, "--min-time", "TIME",
      [&min_time](const std::string& text) { min_time = time_named("--min-time", text); }, help);
}

void add_bench_lengths(CLI::App& command, BenchOptions& options) {
  add_count(command, "--warmup", options.warmup, 0,
            "untimed calls before the measurement (default 5)");
  add_count(command, "--iterations", options.iterations, 1,
            "timed calls of each library (default: from --min-time, 20 to 2000)");
  add_min_time(command, options.min_time, "time to spend on each size (default 500ms)");
}

void add_bench_reports(CLI::App& command, BenchOptions& options) {
  add(
      command, "--format", "NAME",
      [&options](const std::string& text) {
        if (text == "nccl-tests") {
          options.format = BenchFormat::nccl_tests;
        } else if (text == "osu") {
          options.format = BenchFormat::osu;
        } else {
          options.format =
              usable(text == "table" ? std::optional(BenchFormat::table) : std::nullopt, "--format",
                     text, "table, nccl-tests or osu");
        }
      },
      "table (default), nccl-tests or osu: the output formats of those benchmarks");
  add_file(command, "--csv", options.csv, "write the rows");
  add_file(command, "--json", options.json, "write all results");
}

}  // namespace

void add_local_rank(CLI::App& command, JobOptions& options) {
  // torch.distributed.launch may append this option to any command line.
  command.add_option("--local-rank,--local_rank", options.launch.local_rank)->group("");
}

void add_launch_options(CLI::App& command, JobOptions& options) {
  command
      .add_option("--init", options.launch.init,
                  "bootstrap: mpi, env:// (MASTER_ADDR and MASTER_PORT) or tcp://HOST:PORT "
                  "(default: by the launcher's variables)")
      ->type_name("HOW");
  command
      .add_option("--rank", options.launch.rank,
                  "without MPI: rank of this process (default: from the launcher's variables)")
      ->type_name("RANK");
  command.add_option("--ranks", options.launch.size, "without MPI: number of ranks")
      ->type_name("N");
  command.add_flag(
      "--insecure", options.insecure,
      "without MPI: accept connections from other hosts without a secret, on a trusted network");
  add_local_rank(command, options);
}

void add_job_options(CLI::App& command, JobOptions& options) {
  add(
      command, "--backend", "NAME",
      [&options](const std::string& text) {
        options.backend = parse_backend(text);
        if (!options.backend) {
          throw CLI::ValidationError(
              fmt::format("--backend {} is unknown: give auto, cpu or nccl", text));
        }
      },
      "auto, cpu or nccl");
  add(
      command, "--timeout", "TIME",
      [&options](const std::string& text) {
        options.timeout = time_named("--timeout", text);
        if (options.timeout.count() == 0) {
          throw CLI::ValidationError("invalid --timeout '0': expected a time above 0");
        }
      },
      "timeout of set-up and of each call (default: TUTTI_TIMEOUT, else 60s)");
  command.add_flag("--verbose", options.verbose,
                   "print set-up phases, the algorithm and every rank's errors");
  add_launch_options(command, options);
}

void add_operation_options(CLI::App& command, OperationOptions& options,
                           const CatalogueEntry& entry) {
  const auto& shape = shape_of(entry.operation);
  add_job_options(command, options);
  if (entry.size != nullptr) {
    add(
        command, "--size", "SIZE",
        [&options](const std::string& text) { options.bytes = size_named("--size", text); },
        fmt::format("{}, rounded up to whole elements (default 4MiB)", entry.size));
    add_type(command, options);
  }
  if (shape.reduces) add_operator(command, options);
  if (entry.root != nullptr) add_root(command, options, entry.root);
  if (shape.send != Extent::none) {
    command.add_flag("--in-place", options.in_place,
                     shape.rooted ? "one buffer for input and result on the root"
                                  : "one buffer for input and result");
  }
  add_count(command, "--repeat", options.repeat, 1,
            "number of runs; the median time is printed (default 1)");
  command
      .add_option("--algorithm", options.algorithm, "algorithm, by its name in docs/algorithms.md")
      ->type_name("NAME");
  add_file(command, "--json", options.json, "write the result");
  command.add_flag("--quiet", options.quiet, "print only errors");
}

void add_bench_options(CLI::App& command, BenchOptions& options) {
  add_bench_contents(command, options);
  add_type(command, options);
  add_operator(command, options);
  add_root(command, options, "root of rooted operations");
  add_bench_lengths(command, options);
  add_bench_reports(command, options);
  add_job_options(command, options);
}

void add_tune_options(CLI::App& command, TuneOptions& options) {
  command
      .add_option("--out", options.out,
                  "the tuning file (default: TUTTI_TUNING, else tutti/tuning.jsonl in the user's "
                  "cache folder)")
      ->type_name("FILE");
  add_min_time(command, options.min_time,
               "time to spend on each operation and size (default 60ms)");
  command
      .add_option_function<std::string>(
          "--max-size",
          [&options](const std::string& text) {
            options.max_bytes = size_named("--max-size", text);
          },
          "the largest size to measure (default 64MiB; without allocate_device() 16MiB at most)")
      ->type_name("SIZE");
  add_job_options(command, options);
}

void add_doctor_options(CLI::App& command, DoctorOptions& options) {
  add_job_options(command, options);
  command.add_flag("--measure", options.measure,
                   "measure latency and bandwidth between hosts and inside them, as a matrix");
  add_file(command, "--json", options.json, "write the findings");
}

void add_hostfile_options(CLI::App& command, HostfileOptions& options) {
  command.add_option("FILE", options.file, "the hostfile; - for standard input")
      ->required()
      ->type_name("");
  add_count(command, "-n,--np", options.ranks, 1,
            "number of ranks, also as -np N (default: the number of slots)");
  command
      .add_option("--map-by", options.map_by,
                  "slot (default): fill a host before the next; node: round-robin over hosts; "
                  "ppr:N:node: N ranks per host")
      ->type_name("HOW");
  command
      .add_option("--mpi", options.mpi,
                  "placement rules: openmpi5 (default), openmpi4 (first the host that mpirun runs "
                  "on) or mpich")
      ->type_name("NAME");
  add_count(command, "--cores", options.cores, 1,
            "slots of a host without slots=N (default: the cores of this machine)");
  add_file(command, "--json", options.json, "write the placement");
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace tutti::app
