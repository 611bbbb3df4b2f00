#include <fmt/format.h>

#include <algorithm>

#include "../catalogue.hpp"
#include "../text.hpp"
#include "report.hpp"

namespace tutti::app::bench {
namespace {

constexpr auto columns = "{:>11}  {:<11} {:>9} {:>9} {:>9} {:>12} {:>9} {:>9} {:>5}  {}\n";

/// Rounds to three significant digits.
std::string number_text(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string ratio_text(const Comparison& comparison, const std::string& implementation) {
  const auto found = std::find_if(comparison.ratios.begin(), comparison.ratios.end(),
                                  [&](const Ratio& ratio) { return ratio.vs == implementation; });
  if (found == comparison.ratios.end()) return "";
  auto text = fmt::format("{} ({} to {})", number_text(found->ratio.median),
                          number_text(found->ratio.low), number_text(found->ratio.high));
  if (found->throughput) text += fmt::format(", {}", number_text(*found->throughput));
  return text;
}

std::string placement_text(const CallSpec& spec) {
  const auto shape = shape_of(spec);
  if (shape.send == Extent::none) return "";
  return fmt::format("{}{}", spec.in_place ? ", in place" : ", out of place",
                     spec.allocated ? ", allocated" : "");
}

}  // namespace

std::string environment_note(const BenchSetup& setup) {
  std::string text;
  for (const auto& [name, value] : setup.environment) {
    text += fmt::format("set in the environment: {}={}\n", name, value);
  }
  return text;
}

std::string table_heading(const BenchSetup& setup, const CallSpec& spec) {
  auto what = shown_name(spec.operation);
  if (shape_of(spec).recv != Extent::none) what += fmt::format(" of {}", name(spec.type));
  if (shape_of(spec).reduces) what += fmt::format(" by {}", name(spec.op));
  return fmt::format("{}{}, {} on {}, backend {}{}\n", what, placement_text(spec),
                     count_text(setup.ranks, "rank"), count_text(setup.hosts, "host"),
                     setup.backend, setup.graph ? ", in a CUDA graph" : "") +
         fmt::format(columns, "size", "library", "median us", "p10", "p90", "throughput", "algbw",
                     "busbw", "wrong", "speed-up (quartiles), in throughput mode");
}

std::string table_rows(const Comparison& comparison) {
  std::string text;
  auto size = comparison.spec.operation == Operation::barrier
                  ? std::string("-")
                  : size_text(bytes_of(comparison.spec));
  for (const auto& row : comparison.rows) {
    text += fmt::format(
        columns, size, row.implementation, number_text(row.median_us), number_text(row.p10_us),
        number_text(row.p90_us), row.throughput_us ? number_text(*row.throughput_us) : "-",
        number_text(row.bandwidth.algorithm_gbs), number_text(row.bandwidth.bus_gbs),
        row.wrong ? fmt::to_string(*row.wrong) : "-", ratio_text(comparison, row.implementation));
    size.clear();
  }
  for (const auto& missing : comparison.missing) {
    text += fmt::format("{:>11}  {:<11} {}\n", "", missing.implementation, missing.reason);
  }
  return text;
}

}  // namespace tutti::app::bench
