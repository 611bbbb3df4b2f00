#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report.hpp"

namespace tutti::app::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string operator_text(const Problem& problem) {
  return shape_of(problem).reduces ? std::string(name(problem.op)) : std::string();
}

/// What names a cell in every row about it.
Json cell_key(const Problem& problem) {
  Json key{
      {"op", name(problem.operation)}, {"type", name(problem.type)}, {"bytes", bytes_of(problem)}};
  if (shape_of(problem).reduces) key["operator"] = name(problem.op);
  return key;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json row_json(const Problem& problem, const Row& row) {
  auto json = cell_key(problem);
  json.update(Json{{"peer", row.peer},
                   {"in_place", is_in_place(problem)},
                   {"allocated", problem.allocated},
                   {"median_us", row.median_us},
                   {"p10_us", row.p10_us},
                   {"p90_us", row.p90_us},
                   {"mean_us", row.mean_us},
                   {"back_to_back_us", or_null(row.back_to_back_us)},
                   {"algbw_gbs", row.bandwidth.algorithm_gbs},
                   {"busbw_gbs", row.bandwidth.bus_gbs},
                   {"iterations", row.iterations},
                   {"wrong", or_null(row.wrong)},
                   {"algorithm", row.algorithm}});
  return json;
}

Json ratio_json(const Problem& problem, const Ratio& ratio) {
  auto json = cell_key(problem);
  json.update(Json{{"vs", ratio.vs},
                   {"ratio", ratio.ratio.median},
                   {"low", ratio.ratio.low},
                   {"high", ratio.ratio.high},
                   {"back_to_back_ratio", or_null(ratio.back_to_back)}});
  return json;
}

Json facts_json(const Facts& facts) {
  return {{"ranks", facts.ranks},
          {"hosts", facts.hosts},
          {"backend", facts.backend},
          {"version", facts.version},
          {"mpi", facts.mpi.empty() ? Json(nullptr) : Json(facts.mpi)},
          {"cores", facts.cores},
          {"host", facts.host},
          {"processor", facts.processor},
          {"device", facts.device.empty() ? Json(nullptr) : Json(facts.device)},
          {"graph", facts.graph},
          {"peers", facts.peers},
          {"environment", facts.environment}};
}

std::string csv_line(const Cell& cell, const Row& row) {
  const auto& problem = cell.problem;
  const auto ratio = std::find_if(cell.ratios.begin(), cell.ratios.end(),
                                  [&](const Ratio& entry) { return entry.vs == row.peer; });
  const auto ratios = ratio == cell.ratios.end() ? std::string(",,")
                                                 : fmt::format("{},{},{}", ratio->ratio.median,
                                                               ratio->ratio.low, ratio->ratio.high);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", name(problem.operation),
                     row.peer, name(problem.type), operator_text(problem), bytes_of(problem),
                     row.median_us, row.p10_us, row.p90_us, row.mean_us,
                     row.back_to_back_us ? fmt::to_string(*row.back_to_back_us) : "",
                     row.bandwidth.algorithm_gbs, row.bandwidth.bus_gbs, row.iterations,
                     row.wrong ? fmt::to_string(*row.wrong) : "", row.algorithm, ratios);
}

}  // namespace

std::string csv_text(const Report& report) {
  std::string text =
      "op,peer,type,operator,bytes,median_us,p10_us,p90_us,mean_us,back_to_back_us,algbw_gbs,"
      "busbw_gbs,iterations,wrong,algorithm,ratio,ratio_low,ratio_high\n";
  for (const auto& cell : report.cells) {
    for (const auto& row : cell.rows) text += csv_line(cell, row);
  }
  return text;
}

std::string json_text(const Report& report) {
  auto rows = Json::array();
  auto ratios = Json::array();
  auto missing = Json::array();
  for (const auto& cell : report.cells) {
    for (const auto& row : cell.rows) rows.push_back(row_json(cell.problem, row));
    for (const auto& ratio : cell.ratios) ratios.push_back(ratio_json(cell.problem, ratio));
    for (const auto& entry : cell.missing) {
      auto json = cell_key(cell.problem);
      json.update(Json{{"peer", entry.peer}, {"reason", entry.reason}});
      missing.push_back(std::move(json));
    }
  }
  const Json json{{"schema", 1},
                  {"job", facts_json(report.facts)},
                  {"rows", rows},
                  {"ratios", ratios},
                  {"missing", missing}};
  return json.dump(1) + "\n";
}

}  // namespace tutti::app::bench
