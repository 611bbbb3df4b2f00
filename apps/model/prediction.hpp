#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/schedule.hpp"
#include "base/call_signature.hpp"
#include "base/published_bytes.hpp"
#include "model/machine.hpp"
#include "model/traffic.hpp"

namespace tutti::model {

/// ScheduleArguments::max_published for a whole job.
[[nodiscard]] constexpr std::int64_t max_published(std::int64_t element_bytes) {
  constexpr auto bytes = static_cast<std::int64_t>(max_published_bytes);
  return element_bytes > bytes ? 1 : bytes / element_bytes;
}

/// The call to predict.
struct PredictionRequest {
  Operation operation = Operation::broadcast;
  int root = 0;
  std::int64_t count = 0;  ///< see ScheduleArguments::count
  std::int64_t chunk = 1;  ///< see ScheduleArguments::chunk
  std::int64_t element_bytes = 1;
  bool in_place = true;
};

enum class Method : std::uint8_t {
  simulated,  ///< all ranks
  one_host,   ///< one host in place of all, which are equivalent
  estimated,  ///< by the closed formula: too many steps to simulate
};

struct Prediction {
  std::string algorithm;
  Method method = Method::simulated;
  double seconds = 0;
  std::int64_t rounds = 0;
  std::int64_t chunk = 0;  ///< elements
  std::int64_t count = 0;  ///< simulated count: may be rounded up to equal slices
  Traffic traffic;         ///< empty if there were too many steps to count
};

/// Limits in steps of all ranks. Up to `simulated_steps`, all ranks are simulated. Above it, the
/// steps of some hosts are counted, up to `counted_steps`; if the hosts are equivalent, one host is
/// simulated in place of all.
struct Limits {
  std::int64_t simulated_steps = 2'500'000;
  std::int64_t counted_steps = 20'000'000;
};

/// Throws std::invalid_argument if the operation has no such algorithm.
[[nodiscard]] Prediction predict(const Machine& machine, const PredictionRequest& request,
                                 std::string_view algorithm, const Limits& limits = {});

}  // namespace tutti::model
