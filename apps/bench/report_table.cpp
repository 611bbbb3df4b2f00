#include <fmt/format.h>

#include <algorithm>

#include "../catalogue.hpp"
#include "../text.hpp"
#include "report.hpp"

namespace tutti::app::bench {
namespace {

constexpr auto columns = "{:>11}  {:<11} {:>9} {:>9} {:>9} {:>12} {:>9} {:>9} {:>5}  {}\n";

/// Three digits that count.
std::string number_text(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string ratio_text(const Cell& cell, const std::string& peer) {
  const auto found = std::find_if(cell.ratios.begin(), cell.ratios.end(),
                                  [&](const Ratio& ratio) { return ratio.vs == peer; });
  if (found == cell.ratios.end()) return "";
  auto text = fmt::format("{} ({} to {})", number_text(found->ratio.median),
                          number_text(found->ratio.low), number_text(found->ratio.high));
  if (found->back_to_back) text += fmt::format(", {}", number_text(*found->back_to_back));
  return text;
}

std::string placement_text(const Problem& problem) {
  const auto shape = shape_of(problem);
  if (shape.send == Extent::none) return "";
  return fmt::format("{}{}", problem.in_place ? ", in place" : ", out of place",
                     problem.allocated ? ", allocated" : "");
}

}  // namespace

std::string environment_note(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts.environment) {
    text += fmt::format("set in the environment: {}={}\n", name, value);
  }
  return text;
}

std::string table_heading(const Facts& facts, const Problem& problem) {
  auto what = shown_name(problem.operation);
  if (shape_of(problem).recv != Extent::none) what += fmt::format(" of {}", name(problem.type));
  if (shape_of(problem).reduces) what += fmt::format(" by {}", name(problem.op));
  return fmt::format("{}{}, {} on {}, backend {}{}\n", what, placement_text(problem),
                     count_text(facts.ranks, "rank"), count_text(facts.hosts, "host"),
                     facts.backend, facts.graph ? ", in a CUDA graph" : "") +
         fmt::format(columns, "size", "side", "median us", "10 %", "90 %", "back-to-back",
                     "alg. GB/s", "bus GB/s", "wrong",
                     "its time over ours (quartiles), back-to-back");
}

std::string table_rows(const Cell& cell) {
  std::string text;
  auto size = cell.problem.operation == Operation::barrier ? std::string("-")
                                                           : size_text(bytes_of(cell.problem));
  for (const auto& row : cell.rows) {
    text += fmt::format(
        columns, size, row.peer, number_text(row.median_us), number_text(row.p10_us),
        number_text(row.p90_us), row.back_to_back_us ? number_text(*row.back_to_back_us) : "-",
        number_text(row.bandwidth.algorithm_gbs), number_text(row.bandwidth.bus_gbs),
        row.wrong ? fmt::to_string(*row.wrong) : "-", ratio_text(cell, row.peer));
    size.clear();
  }
  for (const auto& missing : cell.missing) {
    text += fmt::format("{:>11}  {:<11} {}\n", "", missing.peer, missing.reason);
  }
  return text;
}

}  // namespace tutti::app::bench
