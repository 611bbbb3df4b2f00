#pragma once

#include <string>
#include <string_view>

namespace tutti::algorithm {

/// Costs of moving data, in seconds and bytes per second. The same on all ranks of a job, since the
/// choice of algorithms depends on them. The simulator and the formulas of cost.hpp share them.
struct CostModel {
  /// From a send to the end of its receive on another host, for 0 bytes and without message_cost at
  /// both ends.
  double link_latency = 30e-6;
  /// Payload rate of a host's link in each direction, without network headers; shared by the host's
  /// ranks.
  double link_rate = 1.17e9;
  /// As link_latency, between ranks of one host.
  double host_latency = 1e-6;
  /// Copy rate of one core, between two buffers of a rank.
  double copy_rate = 5e9;
  /// Reduction rate of one core, in bytes of the result.
  double reduce_rate = 4e9;
  /// Processor time of a message at each end, through a socket.
  double message_cost = 3e-6;
};

/// Parses a JSON object with any of link_latency_us, link_gbs, host_latency_us, copy_gbs,
/// reduce_gbs and message_cost_us, each above 0 (gbs: 1e9 bytes per second). Missing keys keep
/// their defaults. Throws std::invalid_argument that names the error.
[[nodiscard]] CostModel parse_cost_model(std::string_view json);
/// Formats the model as JSON for parse_cost_model().
[[nodiscard]] std::string text_of(const CostModel& model);

}  // namespace tutti::algorithm
