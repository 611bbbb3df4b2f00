#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/schedule.hpp"
#include "base/call_signature.hpp"
#include "model/machine.hpp"
#include "model/traffic.hpp"

namespace tutti::model {

/// A call on a machine.
struct PredictionRequest {
  Operation operation = Operation::broadcast;
  int root = 0;
  std::int64_t count = 0;  ///< as ScheduleArguments::count
  std::int64_t chunk = 1;  ///< as ScheduleArguments::chunk
  std::int64_t element_bytes = 1;
  bool in_place = true;
};

enum class Method : std::uint8_t {
  simulated,  ///< all ranks
  one_host,   ///< one host, which stands for all: those looked at do the same
  estimated,  ///< too many steps: by closed formula
};

struct Prediction {
  std::string algorithm;
  Method method = Method::simulated;
  double seconds = 0;
  std::int64_t rounds = 0;
  std::int64_t chunk = 0;  ///< elements
  std::int64_t count = 0;  ///< what was looked at: may be a little more, so that slices are equal
  Traffic traffic;         ///< no steps where even these were too many to walk through
};

/// Up to `run` steps of all ranks are run event by event. With more, some hosts are walked through,
/// up to `walked` steps; where these do the same, one is run for all.
struct Limits {
  std::int64_t run = 2'500'000;
  std::int64_t walked = 20'000'000;
};

/// Throws std::invalid_argument for an algorithm that the operation does not have.
[[nodiscard]] Prediction predict(const Machine& machine, const PredictionRequest& request,
                                 std::string_view algorithm, const Limits& limits = {});

}  // namespace tutti::model
