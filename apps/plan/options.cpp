#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "base/environment.hpp"
#include "catalogue.hpp"
#include "command_line.hpp"
#include "plan/plan.hpp"

namespace tutti::app::plan {
namespace {

constexpr int max_ranks = 1 << 20;

[[noreturn]] void refuse(const char* option, const std::string& text, const std::string& expected) {
  throw CLI::ValidationError(fmt::format("invalid {} '{}': expected {}", option, text, expected));
}

void add(CLI::App& command, const char* option, const char* kind,
         const std::function<void(const std::string&)>& set, const std::string& help) {
  command.add_option_function<std::string>(option, set, help)->type_name(kind);
}

double positive(const char* option, const std::string& text, const std::string& expected) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || !(value > 0) ||
      value > 1e9)
    refuse(option, text, expected);
  return value;
}

void add_time(CLI::App& command, const char* option, double& seconds, const std::string& help) {
  add(
      command, option, "TIME",
      [&seconds, option](const std::string& text) {
        const auto time = parse_duration(text);
        if (!time) refuse(option, text, "a time such as 5us or 0.1ms");
        seconds = std::chrono::duration<double>(*time).count();
      },
      help);
}

void add_rate(CLI::App& command, const char* option, double& bytes_a_second,
              const std::string& help) {
  add(
      command, option, "GB/s",
      [&bytes_a_second, option](const std::string& text) {
        bytes_a_second = 1e9 * positive(option, text, "GB/s above 0, such as 5");
      },
      help);
}

std::size_t size_named(const char* option, const std::string& text) {
  const auto size = parse_size(text);
  if (!size) refuse(option, text, "bytes, or a number with KiB, MiB or GiB");
  return *size;
}

std::string operations() {
  std::vector<std::string> names;
  for (const auto& entry : catalogue())
    if (entry.operation != Operation::send_recv) names.emplace_back(entry.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void set_layout(PlanOptions& options, const std::string& text) {
  options.layout.clear();
  for (const auto& part : split_list(text)) {
    int ranks = 0;
    const auto result = std::from_chars(part.data(), part.data() + part.size(), ranks);
    if (result.ec != std::errc() || result.ptr != part.data() + part.size() || ranks < 1 ||
        ranks > max_ranks)
      refuse("--layout", text, "the ranks of each host, comma-separated, such as 8,8,4");
    options.layout.push_back(ranks);
  }
}

void add_machine(CLI::App& command, PlanOptions& options) {
  command.add_option("--ranks,--np", options.ranks, "number of ranks")
      ->check(CLI::Range(1, max_ranks).description(""))
      ->type_name("N");
  command
      .add_option("--hosts", options.hosts, "number of hosts; ranks are spread evenly (default 1)")
      ->check(CLI::Range(1, max_ranks).description(""))
      ->type_name("H");
  add(
      command, "--layout", "LIST",
      [&options](const std::string& text) { set_layout(options, text); },
      "ranks of each host, such as 8,8,4; replaces --ranks and --hosts");
  add(
      command, "--map-by", "HOW",
      [&options](const std::string& text) {
        if (text != "slot" && text != "node") refuse("--map-by", text, "slot or node");
        options.map_by = text == "slot" ? model::MapBy::slot : model::MapBy::node;
      },
      "slot (default): fill one host after the other; node: round-robin over hosts");
  add(
      command, "--gbps", "G",
      [&options](const std::string& text) {
        options.gbps = positive("--gbps", text, "Gbit/s above 0, such as 100");
      },
      "bandwidth of each host's link, each way, in Gbit/s (default 10)");
  add(
      command, "--burst", "SIZE",
      [&options](const std::string& text) { options.burst_bytes = size_named("--burst", text); },
      "burst size of links that a token bucket shapes (default 0)");
  add_time(command, "--latency", options.costs.link_latency,
           "latency between hosts, of an empty message (default 30us)");
  add_time(command, "--host-latency", options.costs.host_latency,
           "latency inside a host (default 1us)");
  add_time(command, "--message-cost", options.costs.message_cost,
           "CPU time of a message at each end (default 3us)");
  add_rate(command, "--copy-rate", options.costs.copy_rate, "copy bandwidth of a core (default 5)");
  add_rate(command, "--reduce-rate", options.costs.reduce_rate,
           "reduction bandwidth of a core (default 4)");
  command
      .add_option("--cores-per-host", options.cores_per_host,
                  "cores that the ranks of a host share (default: one per rank)")
      ->check(CLI::Range(1, max_ranks).description(""))
      ->type_name("N");
  command.add_option("--numa-nodes", options.numa_nodes, "NUMA nodes of a host (default 1)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
}

}  // namespace

void add_options(CLI::App& command, PlanOptions& options) {
  command
      .add_option_function<std::string>(
          "OPERATION",
          [&options](const std::string& text) {
            const auto* const entry = find_entry(text);
            if (entry == nullptr || entry->operation == Operation::send_recv)
              refuse("operation", text, "one of " + operations());
            options.operation = entry->operation;
          },
          "one of " + operations())
      ->required()
      ->type_name("");
  add_machine(command, options);
  add(
      command, "--size", "SIZE",
      [&options](const std::string& text) { options.bytes = size_named("--size", text); },
      "as in `tutti OPERATION` (default 4MiB)");
  add(
      command, "--type", "TYPE",
      [&options](const std::string& text) {
        const auto type = parse_type(text);
        if (!type) refuse("--type", text, "a type such as f32, bf16 or i64");
        options.type = *type;
      },
      "element type (default f32)");
  command.add_option("--root", options.root, "root of rooted operations (default 0)")
      ->check(CLI::Range(0, max_ranks).description(""))
      ->type_name("RANK");
  command
      .add_option("--algorithm", options.algorithm,
                  "algorithm to plan (default: the one that a call chooses)")
      ->type_name("NAME");
  add(
      command, "--chunk", "SIZE",
      [&options](const std::string& text) {
        const auto bytes = size_named("--chunk", text);
        if (bytes < 1) refuse("--chunk", text, "1 byte or more");
        options.chunk_bytes = bytes;
      },
      "pipeline chunk, as TUTTI_CHUNK");
  command.add_flag("--out-of-place", options.out_of_place, "separate buffers for input and result");
  command.add_flag("--deterministic", options.in_rank_order,
                   "reduce in rank order, as 16-bit floats always are");
  command
      .add_option("--write-model", options.write_model,
                  "write the machine's parameters to this file, for TUTTI_MODEL")
      ->type_name("FILE");
  command.add_option("--json", options.json, "write the plan to this file, - for standard output")
      ->type_name("FILE");
}

}  // namespace tutti::app::plan
