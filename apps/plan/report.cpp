#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "catalogue.hpp"
#include "plan/plan.hpp"
#include "text.hpp"

namespace tutti::app::plan {
namespace {

using model::Method;
using model::Prediction;

/// "1.86 GiB", "12 KiB": rounded, unlike size_text().
std::string rounded_text(double bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return unit == 0 || bytes >= 100 ? fmt::format("{:.0f} {}", bytes, units[unit])
                                   : fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

double element_bytes(const Plan& plan) {
  return plan.bytes == 0 ? 1 : static_cast<double>(size_of(plan.options.type));
}

std::int64_t max_of(const std::vector<std::int64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

/// Elements on the busiest link, in its busier direction.
std::int64_t busiest(const model::Traffic& traffic) {
  return std::max(max_of(traffic.out), max_of(traffic.in));
}

const char* name(Method method) {
  return method == Method::simulated  ? "simulated"
         : method == Method::one_host ? "one host simulated"
                                      : "estimated";
}

std::string layout_text(const Plan& plan) {
  const auto& layout = plan.layout;
  const auto [least, most] = std::minmax_element(layout.begin(), layout.end());
  const auto hosts = count_text(static_cast<long>(layout.size()), "host");
  const char* by = plan.options.map_by == model::MapBy::slot ? "slot" : "node";
  const auto each = *least == *most       ? fmt::format("{} each", *most)
                    : layout.size() <= 16 ? fmt::format("{}", fmt::join(layout, ", "))
                                          : fmt::format("{} to {} each", *least, *most);
  return fmt::format("{} on {} ({}, by {})", count_text(plan.options.ranks, "rank"), hosts, each,
                     by);
}

std::string what_text(const Plan& plan) {
  auto text = shown_name(plan.options.operation);
  const auto* const entry = find_entry(text);
  if (plan.bytes > 0) text += " of " + size_text(plan.bytes);
  if (entry != nullptr && entry->root != nullptr)
    text += fmt::format(", root {}", plan.options.root);
  return text;
}

std::string machine_text(const Plan& plan) {
  const auto& o = plan.options;
  auto text = fmt::format(
      "links {:g} Gbit/s, latency {}; inside a host {}; message {}, copy {:g} GB/s, reduction {:g} "
      "GB/s",
      o.gbps, duration_text(o.costs.link_latency), duration_text(o.costs.host_latency),
      duration_text(o.costs.message_cost), o.costs.copy_rate / 1e9, o.costs.reduce_rate / 1e9);
  if (o.burst_bytes > 0) text += fmt::format("; link burst {}", size_text(o.burst_bytes));
  if (o.cores_per_host > 0)
    text += fmt::format("; {} a host", count_text(o.cores_per_host, "core"));
  if (o.numa_nodes > 1) text += fmt::format("; {} NUMA nodes per host", o.numa_nodes);
  return text;
}

std::string row(const Plan& plan, const Prediction& p) {
  const double element = element_bytes(plan);
  const auto& s = p.traffic;
  auto text = fmt::format("{:<2}{:<20}{:>11}{:>10}{:>8}", p.algorithm == plan.chosen ? ">" : "",
                          p.algorithm, duration_text(p.seconds),
                          rounded_text(static_cast<double>(p.chunk) * element), p.rounds);
  if (s.steps == 0)
    return text + fmt::format("{:>12}{:>12}{:>10}{:>12}{:>9}   {}\n", "-", "-", "-", "-", "-",
                              name(p.method));
  return text + fmt::format("{:>12}{:>12}{:>10}{:>12}{:>9}   {}\n",
                            rounded_text(static_cast<double>(busiest(s)) * element),
                            rounded_text(static_cast<double>(s.between_hosts) * element),
                            s.max_messages,
                            rounded_text(static_cast<double>(s.scratch_elements) * element),
                            s.sockets, name(p.method));
}

std::string summary(const Plan& plan) {
  const auto& chosen = plan.of(plan.chosen);
  auto text = plan.options.algorithm.empty() ? fmt::format("A call would choose {}", plan.chosen)
                                             : fmt::format("As requested, {}", plan.chosen);
  text += fmt::format(": {}.", duration_text(chosen.seconds));
  const auto* const other = plan.runner_up();
  if (other == nullptr) return text;
  const double ratio = other->seconds / chosen.seconds;
  if (ratio < 1 && plan.options.algorithm.empty()) {
    // A call chooses by formulas, since it has no time to simulate.
    text += fmt::format(" In this simulation {} is faster, {:.2f} times as long: --algorithm {}.",
                        other->algorithm, ratio, other->algorithm);
  } else {
    text += fmt::format(" The next best is {}, {:.2f} times as long.", other->algorithm, ratio);
  }
  return text;
}

std::string notes(const Plan& plan) {
  std::set<std::string> lines;
  for (const auto& p : plan.predictions) {
    if (p.method == Method::one_host)
      lines.insert("One host simulated: all hosts behave the same.");
    if (p.method == Method::estimated)
      lines.insert("Estimated: too many steps to simulate; the time is from the cost formula.");
    if (p.traffic.sampled)
      lines.insert("Too many steps to count: bytes and messages are extrapolated from four hosts.");
    if (p.traffic.steps > 0 && p.count != plan.predictions.front().count)
      lines.insert(fmt::format("{}: planned with {} elements, so that all slices are equal.",
                               p.algorithm, p.count));
  }
  std::string text;
  for (const auto& note : lines) text += note + "\n";
  return text;
}

}  // namespace

std::string text_of(const Plan& plan) {
  auto text = fmt::format("{}: {}\n{}\n\n", what_text(plan), layout_text(plan), machine_text(plan));
  text +=
      fmt::format("  {:<20}{:>11}{:>10}{:>8}{:>12}{:>12}{:>10}{:>12}{:>9}\n", "algorithm", "time",
                  "chunk", "rounds", "max. link", "all links", "messages", "scratch", "sockets");
  for (const auto& p : plan.predictions) text += row(plan, p);
  text += "\n" + summary(plan) + "\n";
  text += "Messages, scratch and sockets (data connections): maximum over ranks.\n";
  return text + notes(plan);
}

std::string json_text(const Plan& plan) {
  const auto& o = plan.options;
  const double element = element_bytes(plan);
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::int64_t>(static_cast<double>(elements) * element);
  };
  auto algorithms = nlohmann::json::array();
  const auto details = [&](const Prediction& p) {
    nlohmann::json entry{
        {"algorithm", p.algorithm}, {"predicted_us", p.seconds * 1e6}, {"rounds", p.rounds},
        {"how", name(p.method)},    {"chunk_bytes", bytes(p.chunk)},   {"elements", p.count}};
    if (p.traffic.steps == 0) return entry;
    const auto& s = p.traffic;
    entry.update({{"link_bytes_most", bytes(busiest(s))},
                  {"link_bytes_out_most", bytes(max_of(s.out))},
                  {"link_bytes_in_most", bytes(max_of(s.in))},
                  {"link_bytes_total", bytes(s.between_hosts)},
                  {"host_bytes_total", bytes(s.within_hosts)},
                  {"messages", s.messages},
                  {"messages_a_rank", s.max_messages},
                  {"scratch_bytes", bytes(s.scratch_elements)},
                  {"sockets", s.sockets},
                  {"sockets_to_other_hosts", s.remote_sockets}});
    return entry;
  };
  for (const auto& p : plan.predictions) algorithms.push_back(details(p));
  auto json = details(plan.of(plan.chosen));
  json.erase("algorithm");
  const auto* const other = plan.runner_up();
  json.update(
      {{"schema", 1},
       {"operation", std::string(tutti::name(o.operation))},
       {"type", std::string(tutti::name(o.type))},
       {"bytes", plan.bytes},
       {"root", o.root},
       {"ranks", o.ranks},
       {"hosts", plan.layout.size()},
       {"layout", plan.layout},
       {"map_by", o.map_by == model::MapBy::slot ? "slot" : "node"},
       {"model",
        {{"gbps", o.gbps},
         {"burst_bytes", o.burst_bytes},
         {"latency_us", o.costs.link_latency * 1e6},
         {"host_latency_us", o.costs.host_latency * 1e6},
         {"message_cost_us", o.costs.message_cost * 1e6},
         {"copy_gbs", o.costs.copy_rate / 1e9},
         {"reduce_gbs", o.costs.reduce_rate / 1e9},
         {"cores_per_host", o.cores_per_host},
         {"numa_nodes", o.numa_nodes}}},
       {"chosen", plan.chosen},
       {"runner_up", other == nullptr ? nlohmann::json() : nlohmann::json(other->algorithm)},
       {"algorithms", algorithms}});
  return json.dump(1) + "\n";
}

}  // namespace tutti::app::plan
