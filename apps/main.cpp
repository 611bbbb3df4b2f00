#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <thread>

#include "bench/implementations.hpp"
#include "bootstrap/shared_secret.hpp"
#include "command_line.hpp"
#include "device/library.hpp"
#include "device/nccl_numbers.hpp"
#include "doctor/doctor.hpp"
#include "hostfile/subcommand.hpp"
#include "output.hpp"
#include "plan/plan.hpp"
#include "rendezvous/tls.hpp"
#include "subcommands.hpp"
#include "text.hpp"
#include "trace.hpp"
#include "tutti/error.hpp"
#include "tutti/version.hpp"
#ifdef TUTTI_HAS_MPI
#include "tutti/mpi.hpp"
#endif

namespace tutti::app {
namespace {

std::string found_text(const std::string& missing) {
  return missing.empty() ? std::string("found") : "not found (" + missing + ")";
}

std::string version_text() {
  const auto cuda = device::load_cuda();
  const auto nccl = device::load_nccl();
  int nccl_version = 0;
  if (nccl.usable()) nccl.calls.get_version(&nccl_version);
  return fmt::format(
      "tutti {}\nMPI: {}\nGloo (bench --vs gloo): {}\nEncryption: {}\nCUDA driver: {}\nNCCL: {}\n",
      version_string,
#ifdef TUTTI_HAS_MPI
      mpi_version_text(MpiBootstrap::library_version()),
#else
      "not built in",
#endif
      bench::gloo_version(), rendezvous::has_tls() ? "TLS 1.3 (TUTTI_ENCRYPT=1)" : "not built in",
      found_text(cuda.missing),
      nccl.usable() ? device::nccl_version_text(nccl_version) : found_text(nccl.missing));
}

/// "allreduce" for "all-reduce" and "All_Reduce".
std::string letters_of(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '-' && c != '_')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

std::string describe_unknown_subcommand(const CLI::App& app, const std::string& word) {
  for (const auto* const known : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (letters_of(known->get_name()) == letters_of(word)) {
      return fmt::format("unknown subcommand '{}': did you mean {}?", word, known->get_name());
    }
  }
  return fmt::format("unknown subcommand '{}': tutti --help lists them", word);
}

std::string describe(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const auto unknown = app.remaining(true);
  const bool has_unknown =
      dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty();
  if (chosen.empty()) {
    return has_unknown ? describe_unknown_subcommand(app, unknown.front()) : error.what();
  }
  const auto& name = chosen.front()->get_name();
  const auto what = has_unknown ? fmt::format("'{}' is unknown", unknown.front()) : error.what();
  return fmt::format("{}: {}; tutti {} --help lists the options", name, what, name);
}

/// Prints a usage error or the requested help once for the job.
int finish_parsing(const CLI::App& app, const CLI::ParseError& error) {
  const int status = error.get_exit_code() == 0 ? 0 : 2;
  if (launched_rank() == 0) {
    if (status == 0) {
      std::ostringstream out;
      app.exit(error, out, out);
      print(out.str());
    } else {
      print_error(describe(app, error));
    }
  } else {
    // The launcher ends all ranks when one fails: rank 0 prints first.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  return status;
}

/// Runs the selected subcommand; empty if there is none.
using Chosen = std::function<int()>;

CLI::App* add_subcommand(CLI::App& app, const char* name, const char* description,
                         const char* example) {
  auto* const command = app.add_subcommand(name, description);
  command->footer(fmt::format("Example: {}", example));
  return command;
}

void add_operations(CLI::App& app, OperationOptions& options, Chosen& chosen) {
  for (const auto& entry : catalogue()) {
    auto* const command = add_subcommand(app, entry.name, entry.description, entry.example);
    add_operation_options(*command, options, entry);
    command->callback([&chosen, &options, operation = entry.operation] {
      chosen = [&options, operation] {
        return run_job(options, [&](JobSession& job) { return perform(job, operation, options); });
      };
    });
  }
}

void add_info(CLI::App& app, JobOptions& options, Chosen& chosen) {
  auto* const command =
      add_subcommand(app, "info", "Print one row per rank: its host, process, device and address",
                     "mpirun --hostfile hosts -np 16 tutti info");
  add_job_options(*command, options);
  command->callback([&] {
    chosen = [&options] {
      return run_job(options, [&](JobSession& job) { return info(job, options); });
    };
  });
}

void add_bench(CLI::App& app, BenchOptions& options, Chosen& chosen) {
  auto* const command = add_subcommand(
      app, "bench", "Benchmark operations against MPI, Gloo or NCCL, and verify the results",
      "mpirun -np 4 tutti bench all-reduce broadcast --vs mpi,gloo --sizes 4,64KiB,16MiB");
  add_bench_options(*command, options);
  command->callback([&] {
    chosen = [&options] {
      return run_job(options, [&](JobSession& job) { return benchmark(job, options); });
    };
  });
}

void add_tune(CLI::App& app, TuneOptions& options, Chosen& chosen) {
  auto* const command = add_subcommand(
      app, "tune",
      "Measure up to which sizes tutti's own kernels between the GPUs of this host are faster than "
      "NCCL, and write the sizes to the file that later jobs read",
      "mpirun -np 2 tutti tune");
  add_tune_options(*command, options);
  command->callback([&] {
    chosen = [&options] {
      // The library reads it when the communicator is made: the direct path takes all sizes.
      ::setenv("TUTTI_DEVICE_PATH", "direct", 1);
      return run_job(options, [&](JobSession& job) { return tune_paths(job, options); });
    };
  });
}

void add_doctor(CLI::App& app, DoctorOptions& options, Chosen& chosen) {
  auto* const command = add_subcommand(
      app, "doctor", "Check whether this job can run; print each finding with its remedy",
      "mpirun --hostfile hosts -np 16 tutti doctor");
  add_doctor_options(*command, options);
  command->callback([&] { chosen = [&options] { return diagnose(options); }; });
}

void add_hostfile(CLI::App& app, HostfileOptions& options, Chosen& chosen) {
  auto* const command =
      add_subcommand(app, "hostfile", "Print where mpirun places each rank of a hostfile (dry run)",
                     "tutti hostfile hosts -np 16 --map-by node");
  add_hostfile_options(*command, options);
  command->callback([&] { chosen = [&options] { return hostfile(options); }; });
}

/// Converts "-np", as mpirun has it. CLI11 would parse it as "-n p".
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {  // CLI11 expects the arguments in reverse order
    words.emplace_back(std::string_view(argv[i]) == "-np" ? "--np" : argv[i]);
  }
  return words;
}

void add_plan(CLI::App& app, plan::PlanOptions& options, Chosen& chosen) {
  auto* const command = add_subcommand(
      app, "plan", "Predict the time of a call on a machine that you describe",
      "tutti plan broadcast --ranks 4096 --hosts 512 --size 64MiB --gbps 100 --latency 5us");
  plan::add_options(*command, options);
  command->callback([&] { chosen = [&options] { return plan::run(options); }; });
}

void add_trace(CLI::App& app, TraceOptions& options, Chosen& chosen) {
  auto* const command = add_subcommand(
      app, "trace", "Merge the records of a job's ranks (TUTTI_RECORD) into a table or a timeline",
      "tutti trace records/*.json --chrome timeline.json");
  command->add_option("FILES", options.files, "records that the ranks wrote")->required();
  command->add_option("--chrome", options.chrome,
                      "write a timeline for chrome://tracing or ui.perfetto.dev to this file");
  command->callback([&] { chosen = [&options] { return trace(options); }; });
}

int run(int argc, char** argv) {
  CLI::App app("Collective communication between the ranks of a job.");
  app.footer("Example: mpirun -np 4 tutti fan-out --size 4MiB");
  app.set_version_flag("--version", version_text);
  bool no_color = false;
  app.add_flag("--no-color", no_color, "plain output (the default; NO_COLOR is accepted too)");
  app.require_subcommand(0, 1);

  OperationOptions operation_options;
  JobOptions info_options;
  BenchOptions bench_options;
  HostfileOptions hostfile_options;
  plan::PlanOptions plan_options;
  TuneOptions tune_options;
  DoctorOptions doctor_options;
  JobOptions before_subcommand;
  TraceOptions trace_options;
  Chosen chosen;
  add_local_rank(app, before_subcommand);
  add_operations(app, operation_options, chosen);
  add_info(app, info_options, chosen);
  add_bench(app, bench_options, chosen);
  add_tune(app, tune_options, chosen);
  add_doctor(app, doctor_options, chosen);
  add_hostfile(app, hostfile_options, chosen);
  add_plan(app, plan_options, chosen);
  add_trace(app, trace_options, chosen);
  try {
    app.name(argv[0]);
    app.parse(arguments_of(argc, argv));
    for (JobOptions* const options : std::initializer_list<JobOptions*>{
             &operation_options, &info_options, &bench_options, &tune_options}) {
      auto& word = options->launch.local_rank;
      if (word.empty()) word = before_subcommand.launch.local_rank;
    }
    // Not CLI11's own check of a required subcommand: it precedes the error about an unknown word.
    if (!chosen) {
      throw CLI::ValidationError(
          "missing subcommand: expected one such as fan-out; tutti --help lists them");
    }
  } catch (const CLI::ParseError& error) {
    return finish_parsing(app, error);
  }
  return chosen();
}

}  // namespace
}  // namespace tutti::app

int main(int argc, char** argv) {
  tutti::app::prepare_standard_streams();
  tutti::bootstrap::hide_secret_of_environment();
  try {
    return tutti::app::run(argc, argv);
  } catch (const tutti::Error& error) {
    tutti::app::print_error(error.sentence());
    return error.code() == tutti::ErrorCode::usage ? 2 : 1;
  } catch (const std::exception& error) {
    tutti::app::print_error(std::string("unexpected error: ") + error.what());
    return 1;
  }
}
