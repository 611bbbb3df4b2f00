// Predicted times compared with times computed by hand.
#include <cmath>

#include "algorithm/choice.hpp"
#include "algorithm/cost.hpp"
#include "model/prediction.hpp"
#include "support/catch.hpp"

namespace tutti::model::test {

namespace {

constexpr double alpha = 1e-3;
constexpr double rate = 1e6;

/// Only links take time: alpha per message, 1/rate per byte.
Machine links_only(const std::vector<int>& host) {
  return {.host = host,
          .costs = {.link_latency = alpha,
                    .link_rate = rate,
                    .host_latency = 0,
                    .copy_rate = 1e30,
                    .reduce_rate = 1e30,
                    .message_cost = 0}};
}

std::vector<int> one_each(int hosts) {
  return place(std::vector<int>(static_cast<std::size_t>(hosts), 1), MapBy::slot);
}

double seconds(const Machine& machine, Operation operation, const char* algorithm,
               std::int64_t bytes, std::int64_t chunk = 1000, int root = 0) {
  return predict(machine, {.operation = operation, .root = root, .count = bytes, .chunk = chunk},
                 algorithm)
      .seconds;
}

bool near(double value, double due) {
  return std::abs(value - due) < 1e-9 + due * 1e-6;
}

}  // namespace

TEST_CASE("times of trees, chains and rings match their formulas") {
  for (const int p : {2, 4, 8, 16}) {
    INFO(p);
    const Machine machine = links_only(one_each(p));
    const double hop = alpha + 4000 / rate;
    CHECK(near(seconds(machine, Operation::broadcast, "binomial", 4000), std::log2(p) * hop));
    CHECK(near(seconds(machine, Operation::reduce, "binomial", 4000, 4000), std::log2(p) * hop));
    CHECK(near(seconds(machine, Operation::barrier, "dissemination", 1),
               std::log2(p) * (alpha + 1 / rate)));
    // 10 chunks of 1000 bytes: the first passes all hops, the others follow one by one.
    const double chunk = 1000 / rate;
    CHECK(near(seconds(machine, Operation::broadcast, "chain", 10000),
               (p - 1) * (alpha + chunk) + 9 * chunk));
    CHECK(
        near(seconds(machine, Operation::fan_out, "direct", 4000), (p - 1) * 4000 / rate + alpha));
    CHECK(near(seconds(machine, Operation::all_reduce, "ring", 1000 * p),
               2 * (p - 1) * (alpha + chunk)));
    CHECK(near(seconds(machine, Operation::all_gather, "ring", 1000), (p - 1) * (alpha + chunk)));
    CHECK(near(seconds(machine, Operation::all_reduce, "recursive_doubling", 1000),
               std::log2(p) * (alpha + chunk)));
  }
}

TEST_CASE("the token bucket of a shaped link refills between calls") {
  auto machine = links_only(one_each(2));
  machine.link_burst_bytes = 1000;
  // While the last byte is in transit, the link could have sent alpha * rate = 1000 bytes more.
  CHECK(near(seconds(machine, Operation::fan_out, "direct", 4000), alpha + 3000 / rate));
  CHECK(near(seconds(machine, Operation::fan_out, "direct", 900), alpha));
  machine.link_burst_bytes = 5000;
  CHECK(near(seconds(machine, Operation::fan_out, "direct", 4000), alpha + 3000 / rate));
  CHECK(near(seconds(machine, Operation::fan_out, "direct", 9000), alpha + 8000 / rate));
}

TEST_CASE("the root makes no difference if all hosts are equal") {
  const Machine machine = links_only(one_each(5));
  for (const char* algorithm : {"binomial", "chain", "direct"})
    for (const int root : {1, 4})
      CHECK(near(seconds(machine, Operation::broadcast, algorithm, 50000, 1000, root),
                 seconds(machine, Operation::broadcast, algorithm, 50000, 1000, 0)));
}

TEST_CASE("the ranks of a host share its link") {
  // Four ranks on each of two hosts exchange 1000 bytes with each rank of the other host.
  const Machine machine = links_only(place({4, 4}, MapBy::slot));
  const double time = seconds(machine, Operation::all_to_all, "pairwise", 1000);
  CHECK(time >= 16 * 1000 / rate + alpha - 1e-9);
  CHECK(time < 16 * 1000 / rate + 4 * alpha);
}

TEST_CASE("uneven hosts: a chain enters each once, for any placement") {
  const double chunk = 1000 / rate;
  for (const MapBy map_by : {MapBy::slot, MapBy::node}) {
    const Machine machine = links_only(place({5, 1, 2}, map_by));
    CHECK(near(seconds(machine, Operation::broadcast, "chain", 20000),
               2 * (alpha + chunk) + 19 * chunk));
  }
}

TEST_CASE("one host is simulated in place of all if the hosts are equivalent") {
  for (const MapBy map_by : {MapBy::slot, MapBy::node}) {
    Machine machine{.host = place({3, 3, 3, 3}, map_by), .numa_nodes = 2};
    for (const int cores : {0, 2}) {
      machine.cores_per_host = cores;
      const PredictionRequest request{
          .operation = Operation::all_reduce, .count = 240000, .chunk = 4000};
      const auto all = predict(machine, request, "ring");
      const auto one = predict(machine, request, "ring", {.simulated_steps = 10});
      CHECK(all.method == Method::simulated);
      CHECK(one.method == Method::one_host);
      CHECK(near(one.seconds, all.seconds));
      CHECK(one.traffic.messages == all.traffic.messages);
      CHECK(one.traffic.between_hosts == all.traffic.between_hosts);
    }
  }
}

TEST_CASE("fewer cores, remote memory, slow copies and reductions take longer") {
  const PredictionRequest request{
      .operation = Operation::all_reduce, .count = 1 << 20, .chunk = 1 << 16};
  const Machine plain{.host = place({4}, MapBy::slot)};
  const double best = predict(plain, request, "ring").seconds;
  Machine other = plain;
  other.cores_per_host = 2;
  CHECK(predict(other, request, "ring").seconds > best);
  other = plain;
  other.numa_nodes = 2;
  CHECK(predict(other, request, "ring").seconds > best);
  other = plain;
  other.costs.reduce_rate /= 2;
  CHECK(predict(other, request, "ring").seconds > best);
  other = plain;
  other.costs.message_cost *= 2;
  CHECK(predict(other, request, "ring").seconds > best);
}

TEST_CASE("every algorithm completes on all kinds of hosts, and its formula is close") {
  for (const auto& shares : {std::vector<int>{1, 1, 1, 1}, {4}, {3, 1, 2}, {8, 8}}) {
    const Machine machine{.host = place(shares, MapBy::node)};
    for (const Operation operation :
         {Operation::barrier, Operation::fan_out, Operation::broadcast, Operation::all_reduce,
          Operation::reduce, Operation::gather, Operation::scatter, Operation::all_gather,
          Operation::reduce_scatter, Operation::all_to_all}) {
      for (const auto algorithm : algorithm::algorithms_of(operation)) {
        for (const std::int64_t count : {std::int64_t{64}, std::int64_t{1} << 22}) {
          const PredictionRequest request{.operation = operation, .count = count, .chunk = 1 << 16};
          const auto simulated = predict(machine, request, algorithm);
          const auto estimated =
              predict(machine, request, algorithm, {.simulated_steps = 0, .counted_steps = 0});
          INFO(name(operation) << " " << algorithm << " of " << count << " on " << shares.size()
                               << " hosts: " << simulated.seconds << " s, by formula "
                               << estimated.seconds);
          CHECK(simulated.method == Method::simulated);
          CHECK(estimated.method == Method::estimated);
          CHECK(simulated.seconds > 0);
          // The formulas do not model the distances between ranks of a host.
          CHECK(estimated.seconds < 8 * simulated.seconds);
          CHECK(estimated.seconds > simulated.seconds / 8);
        }
      }
    }
  }
}

}  // namespace tutti::model::test
