#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report.hpp"

namespace tutti::app::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string operator_text(const CallSpec& spec) {
  return shape_of(spec).reduces ? std::string(name(spec.op)) : std::string();
}

/// JSON keys that identify a comparison in each of its rows.
Json comparison_key(const CallSpec& spec) {
  Json key{{"op", name(spec.operation)}, {"type", name(spec.type)}, {"bytes", bytes_of(spec)}};
  if (shape_of(spec).reduces) key["operator"] = name(spec.op);
  return key;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json row_json(const CallSpec& spec, const Row& row) {
  auto json = comparison_key(spec);
  json.update(Json{{"peer", row.implementation},
                   {"in_place", is_in_place(spec)},
                   {"allocated", spec.allocated},
                   {"median_us", row.median_us},
                   {"p10_us", row.p10_us},
                   {"p90_us", row.p90_us},
                   {"p99_us", row.p99_us},
                   {"max_us", row.max_us},
                   {"mean_us", row.mean_us},
                   {"back_to_back_us", or_null(row.throughput_us)},
                   {"algbw_gbs", row.bandwidth.algorithm_gbs},
                   {"busbw_gbs", row.bandwidth.bus_gbs},
                   {"iterations", row.iterations},
                   {"wrong", or_null(row.wrong)},
                   {"algorithm", row.algorithm}});
  return json;
}

Json ratio_json(const CallSpec& spec, const Ratio& ratio) {
  auto json = comparison_key(spec);
  json.update(Json{{"vs", ratio.vs},
                   {"ratio", ratio.ratio.median},
                   {"low", ratio.ratio.low},
                   {"high", ratio.ratio.high},
                   {"back_to_back_ratio", or_null(ratio.throughput)}});
  return json;
}

Json setup_json(const BenchSetup& setup) {
  return {{"ranks", setup.ranks},
          {"hosts", setup.hosts},
          {"backend", setup.backend},
          {"version", setup.version},
          {"mpi", setup.mpi.empty() ? Json(nullptr) : Json(setup.mpi)},
          {"cores", setup.cores},
          {"core_quota", setup.core_quota == 0 ? Json(nullptr) : Json(setup.core_quota)},
          {"host", setup.host},
          {"processor", setup.processor},
          {"device", setup.device.empty() ? Json(nullptr) : Json(setup.device)},
          {"graph", setup.graph},
          {"peers", setup.implementations},
          {"environment", setup.environment}};
}

std::string csv_line(const Comparison& comparison, const Row& row) {
  const auto& spec = comparison.spec;
  const auto ratio =
      std::find_if(comparison.ratios.begin(), comparison.ratios.end(),
                   [&](const Ratio& entry) { return entry.vs == row.implementation; });
  const auto ratios =
      ratio == comparison.ratios.end()
          ? std::string(",,")
          : fmt::format("{},{},{}", ratio->ratio.median, ratio->ratio.low, ratio->ratio.high);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                     name(spec.operation), row.implementation, name(spec.type), operator_text(spec),
                     bytes_of(spec), row.median_us, row.p10_us, row.p90_us, row.p99_us, row.max_us,
                     row.mean_us, row.throughput_us ? fmt::to_string(*row.throughput_us) : "",
                     row.bandwidth.algorithm_gbs, row.bandwidth.bus_gbs, row.iterations,
                     row.wrong ? fmt::to_string(*row.wrong) : "", row.algorithm, ratios);
}

}  // namespace

std::string csv_text(const Report& report) {
  std::string text =
      "op,peer,type,operator,bytes,median_us,p10_us,p90_us,p99_us,max_us,mean_us,back_to_back_us,"
      "algbw_gbs,"
      "busbw_gbs,iterations,wrong,algorithm,ratio,ratio_low,ratio_high\n";
  for (const auto& comparison : report.comparisons) {
    for (const auto& row : comparison.rows) text += csv_line(comparison, row);
  }
  return text;
}

std::string json_text(const Report& report) {
  auto rows = Json::array();
  auto ratios = Json::array();
  auto missing = Json::array();
  for (const auto& comparison : report.comparisons) {
    for (const auto& row : comparison.rows) rows.push_back(row_json(comparison.spec, row));
    for (const auto& ratio : comparison.ratios)
      ratios.push_back(ratio_json(comparison.spec, ratio));
    for (const auto& entry : comparison.missing) {
      auto json = comparison_key(comparison.spec);
      json.update(Json{{"peer", entry.implementation}, {"reason", entry.reason}});
      missing.push_back(std::move(json));
    }
  }
  const Json json{{"schema", 1},
                  {"job", setup_json(report.setup)},
                  {"rows", rows},
                  {"ratios", ratios},
                  {"missing", missing}};
  return json.dump(1) + "\n";
}

}  // namespace tutti::app::bench
