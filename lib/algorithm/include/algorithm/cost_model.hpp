#pragma once

#include <string>
#include <string_view>

namespace tutti::algorithm {

/// What moving data costs, in seconds and bytes a second. The same on all ranks of a job, since the
/// choice of algorithms is made from it. The simulator and the closed formulas of cost.hpp use the
/// same numbers.
struct CostModel {
  /// From a send to the end of its receive on another host, without any bytes and without the two
  /// ends' message_cost.
  double link_latency = 30e-6;
  /// What a host's link carries each way, shared by the host's ranks: bytes of data, after what
  /// headers of the network take.
  double link_rate = 1.17e9;
  /// As link_latency, between ranks of one host.
  double host_latency = 1e-6;
  /// One processor core copies so fast, from one of a rank's buffers into another.
  double copy_rate = 5e9;
  /// One core adds up so fast: bytes of the result.
  double reduce_rate = 4e9;
  /// Processor time of a message, at each of its two ends: that of a socket.
  double message_cost = 3e-6;
};

/// From JSON: an object with any of link_latency_us, link_gbs, host_latency_us, copy_gbs,
/// reduce_gbs and message_cost_us, each above 0 (gbs: 1e9 bytes a second). What is left out keeps
/// its default. Throws std::invalid_argument that names what is wrong.
[[nodiscard]] CostModel parse_cost_model(std::string_view json);
/// The same model as parse_cost_model() reads it.
[[nodiscard]] std::string text_of(const CostModel& model);

}  // namespace tutti::algorithm
