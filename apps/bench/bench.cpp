#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "../catalogue.hpp"
#include "../output.hpp"
#include "../result_file.hpp"
#include "../subcommands.hpp"
#include "../text.hpp"
#include "base/environment.hpp"
#include "measure.hpp"
#include "report.hpp"
#include "tutti/version.hpp"

namespace tutti::app {
namespace {

using bench::BenchSetup;
using bench::Comparison;
using bench::DeviceCalls;
using bench::Measurement;
using bench::Report;

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "";
}

/// Variables that mpirun sets for its processes.
bool is_set_by_launcher(const std::string& name) {
  for (const auto* prefix : {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_prte_",
                             "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

/// Variables that can change the measured times.
std::map<std::string, std::string> timing_environment() {
  std::map<std::string, std::string> relevant;
  for (const auto& [name, value] : current_environment()) {
    for (const auto* prefix : {"MALLOC_", "NCCL_", "TUTTI_", "OMPI_MCA_", "MPICH_", "MPIR_",
                               "I_MPI_", "UCX_", "GLOO_"}) {
      if (name.starts_with(prefix) && !is_set_by_launcher(name)) relevant[name] = value;
    }
  }
  return relevant;
}

BenchSetup setup_of(JobSession& job, const BenchOptions& options,
                    const Measurement::Implementations& implementations) {
  const auto& communicator = job.communicator();
  const auto& own = communicator.info(communicator.rank());
  BenchSetup setup{.ranks = communicator.size(),
                   .hosts = communicator.host_count(),
                   .backend = job.backend(),
                   .version = version_string,
                   .mpi = job.mpi(),
                   .cores = own.cores,
                   .core_quota = own.core_quota,
                   .host = own.host,
                   .processor = processor_name(),
                   .device = own.device,
                   .graph = options.graph,
                   .implementations = {},
                   .environment = timing_environment()};
  for (const auto& implementation : implementations) {
    if (implementation != implementations.front())
      setup.implementations[implementation->name()] = implementation->version();
  }
  return setup;
}

Measurement::Implementations make_implementations(JobSession& job, const BenchOptions& options) {
  Options settings;
  if (options.timeout.count() > 0) settings.timeout = options.timeout;
  const auto timeout = setup_timeout(settings);
  Measurement::Implementations implementations;
  implementations.push_back(bench::make_tutti_implementation(job));
  std::set<std::string> made;
  for (const auto& name : options.baselines) {
    if (made.insert(name).second)
      implementations.push_back(bench::make_baseline(name, job, timeout));
  }
  return implementations;
}

/// True unless the operation is usually called out-of-place.
bool runs_in_place(Operation operation, const BenchOptions& options) {
  const bool has_buffers = shape_of(operation).send != Extent::none;
  return has_buffers && operation != Operation::all_to_all && !options.out_of_place;
}

std::vector<CallSpec> specs_of(JobSession& job, const BenchOptions& options) {
  const auto& communicator = job.communicator();
  std::vector<CallSpec> specs;
  for (const auto operation : options.operations) {
    CallSpec spec{.operation = operation,
                  .type = options.type,
                  .op = options.op,
                  .root = options.root,
                  .in_place = runs_in_place(operation, options),
                  .allocated = options.allocated,
                  .on_nccl = job.is_on_nccl(),
                  .wraps = false,
                  .rank = communicator.rank(),
                  .ranks = communicator.size()};
    if (operation == Operation::barrier) {
      specs.push_back(spec);
      continue;
    }
    for (const auto bytes : options.sizes) {
      spec.count = count_for(spec, bytes);
      specs.push_back(spec);
    }
  }
  return specs;
}

/// Progress on standard error, only on a terminal.
class Progress {
 public:
  Progress(bool is_reporter, std::size_t total)
      : enabled_(is_reporter && ::isatty(2) != 0), total_(total) {}
  void at(const CallSpec& spec) {
    ++done_;
    if (!enabled_) return;
    print_error_text(fmt::format("\r\033[K{} of {}: {} of {}", done_, total_,
                                 shown_name(spec.operation), size_text(bytes_of(spec))));
  }
  void clear() const {
    if (enabled_) print_error_text("\r\033[K");
  }

 private:
  bool enabled_;
  std::size_t total_;
  std::size_t done_ = 0;
};

/// Prints the rows of the table as they are measured.
class Table {
 public:
  explicit Table(bool wanted) : wanted_(wanted) {}
  void add(const BenchSetup& setup, const Comparison& comparison) {
    if (!wanted_) return;
    if (latest_ != comparison.spec.operation) print(table_heading(setup, comparison.spec));
    latest_ = comparison.spec.operation;
    print(table_rows(comparison));
  }

 private:
  bool wanted_;
  Operation latest_ = Operation::none;
};

void require_usable(JobSession& job, const BenchOptions& options) {
  if (options.graph && !job.stream()) {
    throw Error(ErrorCode::usage, "--graph needs GPU buffers, but the backend is cpu: " +
                                      job.communicator().device_path_reason());
  }
}

/// Reports wrong data on standard error too: with --json, nobody may read standard output.
bool is_verified(const Report& report, bool is_reporter) {
  bool verified = true;
  for (const auto& comparison : report.comparisons) {
    for (const auto& row : comparison.rows) {
      if (!row.wrong || *row.wrong == 0) continue;
      verified = false;
      if (!is_reporter) continue;
      print_error_text(fmt::format(
          "tutti bench: wrong result of {} of {} elements of {} by {}: {} elements differ\n",
          name(comparison.spec.operation), comparison.spec.count, name(comparison.spec.type),
          row.implementation, *row.wrong));
    }
  }
  return verified;
}

void write_out(const Report& report, const BenchOptions& options, bool prints_table,
               ResultFile& csv, ResultFile& json) {
  if (prints_table && options.format == BenchFormat::nccl_tests) {
    print(nccl_tests_text(report));
  }
  if (prints_table && options.format == BenchFormat::osu) print(osu_text(report));
  if (csv.wanted()) csv.write(csv_text(report));
  if (json.wanted()) json.write(json_text(report));
}

}  // namespace

int benchmark(JobSession& job, const BenchOptions& options) {
  auto& communicator = job.communicator();
  require_usable(job, options);
  ResultFile csv(communicator, options.csv, "--csv");
  ResultFile json(communicator, options.json, "--json");
  const bool is_reporter = communicator.rank() == 0;
  const bool prints_table = is_reporter && !csv.is_standard_output() && !json.is_standard_output();

  std::optional<DeviceCalls> device;
  if (job.stream()) device.emplace();
  const auto implementations = make_implementations(job, options);
  std::vector<std::string> names;
  for (const auto& implementation : implementations) names.push_back(implementation->name());
  Measurement measurement(job, options, implementations, device ? &*device : nullptr);
  const auto specs = specs_of(job, options);
  Progress progress(is_reporter, specs.size());
  Table table(prints_table && options.format == BenchFormat::table);
  Report report{.setup = setup_of(job, options, implementations), .comparisons = {}};
  if (prints_table && options.format == BenchFormat::table) print(environment_note(report.setup));
  for (const auto& spec : specs) {
    progress.at(spec);
    Workload workload(job, spec);
    report.comparisons.push_back(bench::make_comparison(spec, names, measurement.run(workload)));
    progress.clear();
    table.add(report.setup, report.comparisons.back());
  }
  job.finish();
  const bool verified = is_verified(report, is_reporter);
  if (is_reporter) write_out(report, options, prints_table, csv, json);
  return verified ? 0 : 1;
}

}  // namespace tutti::app
