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

[[noreturn]] void refuse(const char* option, const std::string& text, const std::string& remedy) {
  throw CLI::ValidationError(fmt::format("{} {} is unusable: {}", option, text, remedy));
}

void add(CLI::App& command, const char* option, const char* kind,
         const std::function<void(const std::string&)>& set, const std::string& help) {
  command.add_option_function<std::string>(option, set, help)->type_name(kind);
}

double positive(const char* option, const std::string& text, const std::string& remedy) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || !(value > 0) ||
      value > 1e9)
    refuse(option, text, remedy);
  return value;
}

void add_time(CLI::App& command, const char* option, double& seconds, const std::string& help) {
  add(
      command, option, "TIME",
      [&seconds, option](const std::string& text) {
        const auto time = parse_duration(text);
        if (!time) refuse(option, text, "give a time such as 5us or 0.1ms");
        seconds = std::chrono::duration<double>(*time).count();
      },
      help);
}

void add_rate(CLI::App& command, const char* option, double& bytes_a_second,
              const std::string& help) {
  add(
      command, option, "GB/s",
      [&bytes_a_second, option](const std::string& text) {
        bytes_a_second = 1e9 * positive(option, text, "give GB a second above 0, such as 5");
      },
      help);
}

std::size_t size_named(const char* option, const std::string& text) {
  const auto size = parse_size(text);
  if (!size) refuse(option, text, "give bytes, or a number with KiB, MiB or GiB");
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
      refuse("--layout", text, "give the ranks of each host with commas between, such as 8,8,4");
    options.layout.push_back(ranks);
  }
}

void add_machine(CLI::App& command, PlanOptions& options) {
  command.add_option("--ranks,--np", options.ranks, "ranks of the job")
      ->check(CLI::Range(1, max_ranks).description(""))
      ->type_name("N");
  command
      .add_option("--hosts", options.hosts,
                  "hosts, with as many ranks on each as can be (default 1)")
      ->check(CLI::Range(1, max_ranks).description(""))
      ->type_name("H");
  add(
      command, "--layout", "LIST",
      [&options](const std::string& text) { set_layout(options, text); },
      "in place of --ranks and --hosts: the ranks of each host, such as 8,8,4");
  add(
      command, "--map-by", "HOW",
      [&options](const std::string& text) {
        if (text != "slot" && text != "node") refuse("--map-by", text, "give slot or node");
        options.map_by = text == "slot" ? model::MapBy::slot : model::MapBy::node;
      },
      "slot (fill one host after the other, default) or node (deal ranks out in turn)");
  add(
      command, "--gbps", "G",
      [&options](const std::string& text) {
        options.gbps = positive("--gbps", text, "give Gbit/s above 0, such as 100");
      },
      "Gbit/s of each host's link, each way (default 10)");
  add(
      command, "--burst", "SIZE",
      [&options](const std::string& text) { options.burst_bytes = size_named("--burst", text); },
      "what a link that is shaped by a token bucket passes before its rate holds (default 0)");
  add_time(command, "--latency", options.costs.link_latency,
           "from a send to the end of its receive on another host, no bytes (default 30us)");
  add_time(command, "--host-latency", options.costs.host_latency,
           "the same inside a host (default 1us)");
  add_time(command, "--message-cost", options.costs.message_cost,
           "processor time of a message at each end (default 3us)");
  add_rate(command, "--copy-rate", options.costs.copy_rate, "a core's copying (default 5)");
  add_rate(command, "--reduce-rate", options.costs.reduce_rate, "a core's adding up (default 4)");
  command
      .add_option("--cores-per-host", options.cores_per_host,
                  "cores that a host's ranks share (default: one each)")
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
              refuse("operation", text, "give one of " + operations());
            options.operation = entry->operation;
          },
          "one of " + operations())
      ->required()
      ->type_name("");
  add_machine(command, options);
  add(
      command, "--size", "SIZE",
      [&options](const std::string& text) { options.bytes = size_named("--size", text); },
      "as of `tutti OPERATION` (default 4MiB)");
  add(
      command, "--type", "TYPE",
      [&options](const std::string& text) {
        const auto type = parse_type(text);
        if (!type) refuse("--type", text, "give a type such as f32, bf16 or i64");
        options.type = *type;
      },
      "element type (default f32)");
  command.add_option("--root", options.root, "of operations that have one (default 0)")
      ->check(CLI::Range(0, max_ranks).description(""))
      ->type_name("RANK");
  command.add_option("--algorithm", options.algorithm, "plan this one as if it were chosen")
      ->type_name("NAME");
  add(
      command, "--chunk", "SIZE",
      [&options](const std::string& text) {
        const auto bytes = size_named("--chunk", text);
        if (bytes < 1) refuse("--chunk", text, "give 1 byte or more");
        options.chunk_bytes = bytes;
      },
      "bytes that a pipeline moves at once, as TUTTI_CHUNK");
  command.add_flag("--out-of-place", options.out_of_place, "separate buffers for input and result");
  command.add_flag("--deterministic", options.in_rank_order,
                   "reductions in the order of ranks, as 16-bit floats always are");
  command
      .add_option("--write-model", options.write_model,
                  "write what was said of the machine to this file, for TUTTI_MODEL")
      ->type_name("FILE");
  command.add_option("--json", options.json, "write the plan to this file, - for standard output")
      ->type_name("FILE");
}

}  // namespace tutti::app::plan
