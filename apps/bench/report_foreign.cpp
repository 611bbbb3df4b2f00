// Tables in the formats of NVIDIA's nccl-tests and OSU's micro-benchmarks, for scripts that parse
// those.
#include <fmt/format.h>

#include <functional>

#include "../catalogue.hpp"
#include "report.hpp"

namespace tutti::app::bench {
namespace {

struct Entry {
  const CallSpec& spec;
  const Row& row;
};

/// Calls `table` with the rows of each implementation for each operation, in the order of
/// measurement.
void for_each_table(const Report& report,
                    const std::function<void(const std::vector<Entry>&)>& table) {
  std::vector<std::vector<Entry>> tables;
  for (const auto& comparison : report.comparisons) {
    for (const auto& row : comparison.rows) {
      const auto same = [&](const std::vector<Entry>& entries) {
        return entries.front().spec.operation == comparison.spec.operation &&
               entries.front().row.implementation == row.implementation;
      };
      auto found = tables.begin();
      while (found != tables.end() && !same(*found)) ++found;
      if (found == tables.end()) found = tables.insert(tables.end(), std::vector<Entry>{});
      found->push_back({comparison.spec, row});
    }
  }
  for (const auto& entries : tables) table(entries);
}

std::string_view nccl_type_name(Type type) {
  switch (type) {
    case Type::i8:
      return "int8";
    case Type::u8:
      return "uint8";
    case Type::i32:
      return "int32";
    case Type::u32:
      return "uint32";
    case Type::i64:
      return "int64";
    case Type::u64:
      return "uint64";
    case Type::f16:
      return "half";
    case Type::bf16:
      return "bfloat16";
    case Type::f32:
      return "float";
    case Type::f64:
      return "double";
    default:
      return name(type);
  }
}

std::string nccl_operator_name(const CallSpec& spec) {
  if (!shape_of(spec).reduces) return "none";
  if (spec.op == Operator::product) return "prod";
  if (spec.op == Operator::average) return "avg";
  return std::string(name(spec.op));
}

std::string nccl_result(const Row& row) {
  return fmt::format("{:>8.2f} {:>7.2f} {:>7.2f} {:>6}", row.median_us, row.bandwidth.algorithm_gbs,
                     row.bandwidth.bus_gbs, row.wrong ? fmt::to_string(*row.wrong) : "N/A");
}

std::string nccl_line(const Entry& entry) {
  const auto& spec = entry.spec;
  const auto absent = fmt::format("{:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
  const auto present = nccl_result(entry.row);
  const bool in_place = is_in_place(spec);
  return fmt::format("{:>12} {:>13} {:>9} {:>7} {:>7} {} {}\n", nccl_tests_bytes(spec), spec.count,
                     nccl_type_name(spec.type), nccl_operator_name(spec),
                     shape_of(spec).rooted ? spec.root : -1, in_place ? absent : present,
                     in_place ? present : absent);
}

const char* osu_name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "Allreduce";
    case Operation::broadcast:
      return "Broadcast";
    case Operation::reduce:
      return "Reduce";
    case Operation::all_gather:
      return "Allgather";
    case Operation::reduce_scatter:
      return "Reduce_scatter";
    case Operation::gather:
      return "Gather";
    case Operation::scatter:
      return "Scatter";
    case Operation::all_to_all:
      return "All-to-All Personalized Exchange";
    case Operation::scan:
      return "Scan";
    case Operation::exclusive_scan:
      return "Exscan";
    case Operation::barrier:
      return "Barrier";
    case Operation::send_recv:
      return "Send-Receive Ring";
    default:
      return "Fan-Out";
  }
}

}  // namespace

std::string nccl_tests_text(const Report& report) {
  std::string text;
  for_each_table(report, [&](const std::vector<Entry>& entries) {
    const auto& first = entries.front();
    text += fmt::format("# {} by {}, tutti {}\n", shown_name(first.spec.operation),
                        first.row.implementation, report.setup.version);
    text += fmt::format("#{:>60} {:>28}\n", "out-of-place", "in-place");
    text +=
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
        "time   algbw   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
        "(us)  (GB/s)  (GB/s)       \n";
    std::uint64_t wrong = 0;
    double bus = 0;
    for (const auto& entry : entries) {
      text += nccl_line(entry);
      wrong += entry.row.wrong.value_or(0);
      bus += entry.row.bandwidth.bus_gbs / static_cast<double>(entries.size());
    }
    text += fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n#\n", wrong,
                        wrong == 0 ? "OK" : "FAILED", bus);
  });
  return text;
}

std::string osu_text(const Report& report) {
  std::string text;
  for_each_table(report, [&](const std::vector<Entry>& entries) {
    const auto& first = entries.front();
    text += fmt::format("\n# {} Latency Test, {}, tutti {}\n", osu_name(first.spec.operation),
                        first.row.implementation, report.setup.version);
    const bool has_size = first.spec.operation != Operation::barrier;
    text += has_size ? fmt::format("{:<10}{:>20}\n", "# Size", "Avg Latency(us)")
                     : "# Avg Latency(us)\n";
    for (const auto& entry : entries) {
      text += has_size ? fmt::format("{:<10}{:>20.2f}\n", osu_bytes(entry.spec), entry.row.mean_us)
                       : fmt::format("{:>17.2f}\n", entry.row.mean_us);
    }
  });
  return text;
}

}  // namespace tutti::app::bench
