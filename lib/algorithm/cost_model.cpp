#include "algorithm/cost_model.hpp"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::algorithm {

namespace {

struct Field {
  const char* name;
  double CostModel::*member;
  double unit;
};

constexpr std::array<Field, 6> fields{{{"link_latency_us", &CostModel::link_latency, 1e-6},
                                       {"link_gbs", &CostModel::link_rate, 1e9},
                                       {"host_latency_us", &CostModel::host_latency, 1e-6},
                                       {"copy_gbs", &CostModel::copy_rate, 1e9},
                                       {"reduce_gbs", &CostModel::reduce_rate, 1e9},
                                       {"message_cost_us", &CostModel::message_cost, 1e-6}}};

}  // namespace

CostModel parse_cost_model(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) throw std::invalid_argument("it is not a JSON object");
  CostModel model;
  for (const auto& [key, value] : parsed.items()) {
    const Field* known = nullptr;
    for (const Field& field : fields)
      if (key == field.name) known = &field;
    if (known == nullptr) {
      std::string text = "it has \"" + key + "\", which is none of";
      for (const Field& field : fields) text += std::string(" ") + field.name;
      throw std::invalid_argument(text);
    }
    const double number = value.is_number() ? value.get<double>() : 0;
    if (!(number > 0) || !std::isfinite(number))
      throw std::invalid_argument("its " + key + " is not a number above 0");
    model.*known->member = number * known->unit;
  }
  return model;
}

std::string text_of(const CostModel& model) {
  nlohmann::json json;
  for (const Field& field : fields) json[field.name] = model.*field.member / field.unit;
  return json.dump();
}

}  // namespace tutti::algorithm
