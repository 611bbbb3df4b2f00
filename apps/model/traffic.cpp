#include "model/traffic.hpp"

#include <algorithm>

namespace tutti::model {

namespace {

using algorithm::Step;
using algorithm::StepKind;

bool is_recv(StepKind kind) {
  return kind == StepKind::recv || kind == StepKind::recv_reduce;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15U + (hash << 6) + (hash >> 2);
  hash *= 0xBF58476D1CE4E5B9U;
  return hash ^ (hash >> 31);
}

}  // namespace

std::vector<int> local_ranks(const std::vector<int>& host) {
  std::vector<int> next;
  std::vector<int> local;
  local.reserve(host.size());
  for (const int h : host) {
    if (next.size() <= static_cast<std::size_t>(h)) next.resize(static_cast<std::size_t>(h) + 1);
    local.push_back(next[static_cast<std::size_t>(h)]++);
  }
  return local;
}

TrafficCounter::TrafficCounter(const Machine& machine)
    : machine_(machine),
      hosts_(*std::max_element(machine.host.begin(), machine.host.end()) + 1),
      local_(local_ranks(machine.host)) {
  traffic_.out.resize(static_cast<std::size_t>(hosts_));
  traffic_.in.resize(static_cast<std::size_t>(hosts_));
  const int most = *std::max_element(local_.begin(), local_.end()) + 1;
  traffic_.hosts_are_equivalent = static_cast<int>(machine.host.size()) == most * hosts_;
  schedule_hashes_.resize(static_cast<std::size_t>(most));
  directions_seen_.resize(machine.host.size());
}

/// A peer relative to a rank: the distance between their hosts, and the peer's local rank.
std::uint64_t TrafficCounter::relative(int rank, int peer) const {
  if (peer < 0) return 0;
  const auto p = static_cast<std::size_t>(peer);
  const int away = machine_.host[p] - machine_.host[static_cast<std::size_t>(rank)];
  const auto distance = static_cast<std::uint64_t>(away < 0 ? away + hosts_ : away);
  return distance << 32 | static_cast<std::uint64_t>(local_[p] + 1);
}

void TrafficCounter::add(int rank, const algorithm::Schedule& schedule) {
  const auto r = static_cast<std::size_t>(rank);
  const auto own_host = static_cast<std::size_t>(machine_.host[r]);
  ++added_;
  std::uint64_t hash = 1;
  std::int64_t sent = 0;
  algorithm::Cursor cursor(schedule);
  for (Step step; cursor.next(step);) {
    ++traffic_.steps;
    hash = mix(hash, static_cast<std::uint64_t>(step.kind) |
                         static_cast<std::uint64_t>(step.region.length()) << 4);
    if (step.peer < 0) continue;
    hash = mix(hash, relative(rank, step.peer));
    if (step.kind != StepKind::send) continue;
    ++sent;
    const auto host = static_cast<std::size_t>(machine_.host[static_cast<std::size_t>(step.peer)]);
    const auto length = step.region.length();
    (host == own_host ? traffic_.within_hosts : traffic_.between_hosts) += length;
    if (host == own_host) continue;
    traffic_.out[own_host] += length;
    traffic_.in[host] += length;
  }
  traffic_.messages += sent;
  traffic_.max_messages = std::max(traffic_.max_messages, sent);
  traffic_.scratch_elements = std::max(traffic_.scratch_elements, schedule.scratch_elements);
  count_sockets(rank, schedule);
  if (!traffic_.hosts_are_equivalent) return;
  auto& seen = schedule_hashes_[static_cast<std::size_t>(local_[r])];
  if (!seen.any) seen = {hash, true};
  if (seen.hash != hash) traffic_.hosts_are_equivalent = false;
}

void TrafficCounter::count_sockets(int rank, const algorithm::Schedule& schedule) {
  // Iterates over loops instead of steps, which is cheaper.
  std::fill(directions_seen_.begin(), directions_seen_.end(), std::uint8_t{0});
  int all = 0;
  int far = 0;
  const int own_host = machine_.host[static_cast<std::size_t>(rank)];
  for (const auto& loop : schedule.loops) {
    for (const auto& pattern : loop.steps) {
      if (pattern.peer < 0) continue;
      const std::uint8_t direction = is_recv(pattern.kind) ? 2 : 1;
      const std::int64_t peers = pattern.peer_step == 0 ? 1 : loop.outer_count;
      for (std::int64_t i = 0; i < peers; ++i) {
        const auto peer = static_cast<std::size_t>(pattern.peer + i * pattern.peer_step);
        const auto seen = directions_seen_[peer];
        if ((seen & direction) != 0) continue;
        directions_seen_[peer] = static_cast<std::uint8_t>(seen | direction);
        // Between hosts both directions share a connection.
        const bool is_far = machine_.host[peer] != own_host;
        if (is_far && seen != 0) continue;
        ++all;
        far += is_far ? 1 : 0;
      }
    }
  }
  traffic_.sockets = std::max(traffic_.sockets, all);
  traffic_.remote_sockets = std::max(traffic_.remote_sockets, far);
}

Traffic TrafficCounter::result() const {
  Traffic result = traffic_;
  if (added_ == machine_.host.size()) return result;
  const auto grow = [this](std::int64_t& sum) {
    sum = static_cast<std::int64_t>(static_cast<double>(sum) *
                                    static_cast<double>(machine_.host.size()) /
                                    static_cast<double>(added_));
  };
  for (auto* const sum :
       {&result.steps, &result.messages, &result.between_hosts, &result.within_hosts})
    grow(*sum);
  result.in.clear();  // incomplete: traffic into a host is counted at its senders
  result.sampled = true;
  return result;
}

}  // namespace tutti::model
