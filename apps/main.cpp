#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "base/environment.hpp"
#include "device/library.hpp"
#include "device/nccl_numbers.hpp"
#include "subcommands.hpp"
#include "tutti/version.hpp"

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
      "tutti {}\nMPI: {}\nCUDA driver: {}\nNCCL: {}\n", version_string,
#ifdef TUTTI_HAS_MPI
      TUTTI_HAS_MPI,
#else
      "not built in",
#endif
      found_text(cuda.missing),
      nccl.usable() ? device::nccl_version_text(nccl_version) : found_text(nccl.missing));
}

template <class T>
void parse_into(T& target, const std::optional<T>& value, const char* option,
                const std::string& text, const char* remedy) {
  if (!value)
    throw CLI::ValidationError(fmt::format("{} {} is unusable: {}", option, text, remedy));
  target = *value;
}

void add_operation_options(CLI::App& command, OperationOptions& options, bool moves_data) {
  command
      .add_option_function<std::string>(
          "--backend",
          [&options](const std::string& text) {
            options.backend = parse_backend(text);
            if (!options.backend) {
              throw CLI::ValidationError(
                  fmt::format("--backend {} is unknown: give auto, cpu or nccl", text));
            }
          },
          "who moves the data: auto, cpu (also: gloo, tcp) or nccl")
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "--timeout",
          [&options](const std::string& text) {
            parse_into(options.timeout, parse_duration(text), "--timeout", text,
                       "give a time such as 60s or 500ms");
            if (options.timeout.count() == 0) {
              throw CLI::ValidationError("--timeout 0 leaves no time for anything: give more");
            }
          },
          "bound on set-up and on each call (default 60s)")
      ->type_name("TIME");
  command.add_flag("--verbose", options.verbose, "phases, algorithm, every rank's errors");
  if (!moves_data) return;
  command
      .add_option_function<std::string>(
          "--size",
          [&options](const std::string& text) {
            parse_into(options.bytes, parse_size(text), "--size", text,
                       "give bytes, or a number with KiB, MiB or GiB");
          },
          "bytes of the buffer, rounded up to whole elements (default 4MiB)")
      ->type_name("SIZE");
  command
      .add_option_function<std::string>(
          "--type",
          [&options](const std::string& text) {
            parse_into(options.type, parse_type(text), "--type", text,
                       "give i8, u8, i32, u32, i64, u64, f16, bf16, f32 or f64");
          },
          "element type (default f32)")
      ->type_name("TYPE");
}

void add_report_options(CLI::App& command, OperationOptions& options) {
  command.add_option("--repeat", options.repeat, "how often to run it; the median time is shown")
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--algorithm", options.algorithm, "name as in docs/algorithms.md");
  command.add_option("--json", options.json,
                     "write the result to this file, - for standard output");
  command.add_flag("--quiet", options.quiet, "print nothing but errors");
}

struct Subcommand {
  const char* name;
  const char* description;
  const char* example;
  int (*body)(Job&, const OperationOptions&);
  bool moves_data;
  bool has_root;
  bool reduces;
  bool reports;
};

constexpr int most_ranks = 1 << 24;

constexpr std::array<Subcommand, 6> subcommands{{
    {"fan-out", "Rank 0's buffer to every other rank, one point-to-point send each, checked",
     "mpirun -np 4 tutti fan-out --size 4MiB", fan_out, true, true, false, true},
    {"broadcast", "The root's buffer to every other rank by the fastest way, checked",
     "mpirun -np 4 tutti broadcast --size 64MiB --root 2", broadcast, true, true, false, true},
    {"all-reduce", "The sum (or another operator) of all ranks' buffers, on every rank, checked",
     "mpirun -np 4 tutti all-reduce --size 1MiB --type f64 --op max", all_reduce, true, false, true,
     true},
    {"send-recv", "Each rank sends to the next and receives from the one before, checked",
     "mpirun -np 4 tutti send-recv --size 1MiB", send_recv, true, false, false, true},
    {"barrier", "Nobody leaves before all have come", "mpirun -np 4 tutti barrier --repeat 100",
     barrier, false, false, false, true},
    {"info", "One row a rank: where it runs and how its peers reach it",
     "mpirun --hostfile hosts -np 16 tutti info", info, false, false, false, false},
}};

/// Prints a usage error or the help that was asked for once for the job.
int finish_parsing(const CLI::App& app, const CLI::ParseError& error) {
  const int status = error.get_exit_code() == 0 ? 0 : 2;
  if (launched_rank() == 0) {
    app.exit(error);
  } else {
    // The launcher ends all ranks when one fails: rank 0 is to be heard first.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("Collective communication between the ranks of a job: rank 0 to all, and the rest.");
  app.footer("Example: mpirun -np 4 tutti fan-out --size 4MiB");
  app.set_version_flag("--version", version_text);
  bool no_color = false;
  app.add_flag("--no-color", no_color, "plain output (it is plain already; NO_COLOR works too)");
  app.require_subcommand(0, 1);

  OperationOptions options;
  const Subcommand* chosen = nullptr;
  for (const auto& subcommand : subcommands) {
    auto* const command = app.add_subcommand(subcommand.name, subcommand.description);
    command->footer(fmt::format("Example: {}", subcommand.example));
    add_operation_options(*command, options, subcommand.moves_data);
    if (subcommand.has_root) {
      command->add_option("--root", options.root, "the rank whose data goes to all (default 0)")
          ->check(CLI::Range(0, most_ranks));
    }
    if (subcommand.reduces) {
      command
          ->add_option_function<std::string>(
              "--op",
              [&options](const std::string& text) {
                parse_into(options.op, parse_operator(text), "--op", text,
                           "give sum, product, min, max or average");
              },
              "sum, product, min, max or average (default sum)")
          ->type_name("NAME");
    }
    if (subcommand.reports) add_report_options(*command, options);
    command->callback([&chosen, &subcommand] { chosen = &subcommand; });
  }
  try {
    app.parse(argc, argv);
    // Asked for here, since CLI11 would ask for it before it names an unknown word.
    if (chosen == nullptr) {
      throw CLI::ValidationError(
          "a subcommand is needed, such as fan-out; tutti --help lists them");
    }
  } catch (const CLI::ParseError& error) {
    return finish_parsing(app, error);
  }
  return run_job(options, [&](Job& job) { return chosen->body(job, options); });
}

}  // namespace
}  // namespace tutti::app

int main(int argc, char** argv) {
  return tutti::app::run(argc, argv);
}
