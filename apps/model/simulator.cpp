#include "model/simulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "model/traffic.hpp"

namespace tutti::model {

namespace {

using algorithm::Step;
using algorithm::StepKind;

/// Bytes: the smallest segment of a flow on a link, before the next flow's turn.
constexpr double shortest_segment = 64 << 10;
/// A message has at most this many segments, unless they would exceed longest_segment.
constexpr double max_segments = 32;
constexpr double longest_segment = 1 << 30;
/// Bytes that a socket buffers before the link has sent them.
constexpr double socket_buffer = 2 << 20;

bool is_recv(const Step& step) {
  return step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
}

}  // namespace

Simulator::Simulator(const Machine& machine, const Actors& actors, double element_bytes)
    : machine_(machine), actors_(actors), element_bytes_(element_bytes) {
  hosts_ = *std::max_element(machine.host.begin(), machine.host.end()) + 1;
  const auto count = actors.schedules.size();
  windows_.reserve(count);
  for (const auto& schedule : actors.schedules) windows_.emplace_back(schedule);
  const auto local = local_ranks(machine.host);
  std::vector<int> ranks_of_host(static_cast<std::size_t>(hosts_));
  for (const int host : machine.host) ++ranks_of_host[static_cast<std::size_t>(host)];
  const int most = *std::max_element(ranks_of_host.begin(), ranks_of_host.end());
  const int cores = machine.cores_per_host > 0 ? machine.cores_per_host : most;
  for (std::size_t actor = 0; actor < count; ++actor) {
    const auto rank = static_cast<std::size_t>(actors.rank[actor]);
    const int host = machine.host[rank];
    core_of_.push_back(host * cores + local[rank] % cores);
    numa_node_of_.push_back(local[rank] * machine.numa_nodes /
                            ranks_of_host[static_cast<std::size_t>(host)]);
  }
  latest_.resize(count);
  chunks_.resize(count);
  core_free_.resize(static_cast<std::size_t>(hosts_) * static_cast<std::size_t>(cores));
  queue_.resize(static_cast<std::size_t>(hosts_));
  waiting_.resize(static_cast<std::size_t>(hosts_));
  link_busy_.resize(static_cast<std::size_t>(hosts_));
  link_in_free_.resize(static_cast<std::size_t>(hosts_));
  // Buckets start empty, as right after another call.
  out_buckets_.resize(static_cast<std::size_t>(hosts_));
  in_buckets_.resize(static_cast<std::size_t>(hosts_));
}

int Simulator::host_of(int actor) const {
  const int rank = actors_.rank[static_cast<std::size_t>(actor)];
  return machine_.host[static_cast<std::size_t>(rank)];
}

void Simulator::add_event(double time, Kind kind, int what, int detail) {
  event_queue_.push({time, events_++, kind, what, detail});
}

/// Occupies the actor's core for `seconds`, after earlier work. Returns when the core is free
/// again.
double Simulator::occupy_core(int actor, double seconds) {
  double& free = core_free_[static_cast<std::size_t>(core_of_[static_cast<std::size_t>(actor)])];
  free = std::max(free, now_) + seconds;
  return free;
}

Outcome Simulator::run() {
  const int count = static_cast<int>(windows_.size());
  for (int actor = 0; actor < count; ++actor) refill(actor);
  while (!event_queue_.empty()) {
    const Event event = event_queue_.top();
    event_queue_.pop();
    now_ = event.time;
    switch (event.kind) {
      case Kind::step_done:
        finish(event.what, static_cast<std::size_t>(event.detail));
        break;
      case Kind::link_free:
        link_busy_[static_cast<std::size_t>(event.what)] = false;
        serve_link(event.what);
        break;
      case Kind::segment_ready:
        enqueue(event.what);
        break;
      case Kind::segment_arrived:
        arrive(event.what, event.detail);
        break;
      case Kind::published: {
        auto& chunks = chunks_[static_cast<std::size_t>(event.what)];
        ++chunks.published;
        for (const auto& reader : std::exchange(chunks.readers, {}))
          read(reader.actor, reader.slot);
        break;
      }
    }
  }
  for (const Window& window : windows_) outcome_.stuck |= !window.is_over();
  return outcome_;
}

void Simulator::refill(int actor) {
  Window& window = windows_[static_cast<std::size_t>(actor)];
  for (std::size_t slot = window.refill(); slot != Window::none; slot = window.refill())
    if (window.may_start(slot)) start(actor, slot);
}

void Simulator::start_ready(int actor, std::uint64_t slots) {
  for (; slots != 0; slots &= slots - 1)
    start(actor, static_cast<std::size_t>(std::countr_zero(slots)));
}

void Simulator::start(int actor, std::size_t slot) {
  Window& window = windows_[static_cast<std::size_t>(actor)];
  const Step& step = window.step(slot);
  const std::uint64_t followers = window.start(slot);
  const auto& costs = machine_.costs;
  if (step.kind == StepKind::send) {
    start_send(actor, slot);
  } else if (is_recv(step)) {
    const int flow = flow_of(actor, step.peer, false);
    flows_[static_cast<std::size_t>(flow)].receives.push_back(
        {bytes_of(step), static_cast<int>(slot), step.kind == StepKind::recv_reduce});
    deliver(flow);
  } else if (step.kind == StepKind::publish) {
    start_publish(actor, slot);
  } else if (algorithm::reads_published(step.kind)) {
    read(actor, slot);
  } else if (step.kind == StepKind::release) {
    add_event(now_, Kind::step_done, actor, static_cast<int>(slot));
  } else {
    const double parts = step.kind == StepKind::combine ? step.parts : 1;
    const double rate = step.kind == StepKind::copy ? costs.copy_rate : costs.reduce_rate;
    add_event(occupy_core(actor, bytes_of(step) * parts / rate), Kind::step_done, actor,
              static_cast<int>(slot));
  }
  start_ready(actor, followers);
}

void Simulator::start_publish(int actor, std::size_t slot) {
  const auto& costs = machine_.costs;
  const Step& step = windows_[static_cast<std::size_t>(actor)].step(slot);
  const double copied = occupy_core(actor, bytes_of(step) / costs.copy_rate);
  add_event(copied, Kind::step_done, actor, static_cast<int>(slot));
  add_event(copied + costs.host_latency, Kind::published, actor);
}

/// Reads what a peer of the host has published, or waits for it.
void Simulator::read(int actor, std::size_t slot) {
  const auto& window = windows_[static_cast<std::size_t>(actor)];
  const Step& step = window.step(slot);
  const int peer = actors_.actor_of[static_cast<std::size_t>(step.peer)];
  auto& theirs = chunks_[static_cast<std::size_t>(peer)];
  if (theirs.published <= window.chunk(slot)) return theirs.readers.push_back({actor, slot});
  const auto& costs = machine_.costs;
  const bool far = numa_node_of_[static_cast<std::size_t>(actor)] !=
                   numa_node_of_[static_cast<std::size_t>(peer)];
  const double copying = bytes_of(step) / costs.copy_rate / (far ? machine_.far_memory_share : 1.0);
  const double reducing =
      step.kind == StepKind::read_reduce ? bytes_of(step) / costs.reduce_rate : 0;
  add_event(occupy_core(actor, std::max(copying, reducing)), Kind::step_done, actor,
            static_cast<int>(slot));
}

void Simulator::start_send(int actor, std::size_t slot) {
  const Step& step = windows_[static_cast<std::size_t>(actor)].step(slot);
  const auto& costs = machine_.costs;
  const double bytes = bytes_of(step);
  const int flow = flow_of(actor, step.peer, true);
  Flow& s = flows_[static_cast<std::size_t>(flow)];
  ++outcome_.messages;
  const double copying = bytes / costs.copy_rate;
  const double copied = occupy_core(actor, costs.message_cost + copying);
  const double segment =
      std::clamp(std::floor(bytes / max_segments), shortest_segment, longest_segment);
  PendingSend message{.bytes_left = bytes,
                      .first_ready = copied - copying + std::min(bytes, segment) / costs.copy_rate,
                      .segment = segment,
                      .slot = static_cast<int>(slot)};
  double& waiting = waiting_[static_cast<std::size_t>(host_of(actor))];
  if (s.crosses_hosts) waiting += bytes;
  if (!s.crosses_hosts || waiting <= socket_buffer) {
    add_event(copied, Kind::step_done, actor, static_cast<int>(slot));
    message.slot = -1;
  }
  if (!s.crosses_hosts && s.messages.empty() && bytes <= segment) {
    add_event(copied + costs.host_latency, Kind::segment_arrived, flow, static_cast<int>(bytes));
    return;
  }
  s.messages.push_back(message);
  next_segment(flow);
}

void Simulator::finish(int actor, std::size_t slot) {
  outcome_.seconds = std::max(outcome_.seconds, now_);
  start_ready(actor, windows_[static_cast<std::size_t>(actor)].finish(slot));
  refill(actor);
}

int Simulator::flow_of(int actor, int peer, bool sends) {
  Latest& latest = latest_[static_cast<std::size_t>(actor)][sends ? 1 : 0];
  if (latest.peer == peer) return latest.flow;
  const int other = actors_.actor_of[static_cast<std::size_t>(peer)];
  const int there = machine_.host[static_cast<std::size_t>(peer)];
  const int away = sends ? there - host_of(actor) : host_of(actor) - there;
  const int distance = actors_.one_host_for_all ? (away + hosts_) % hosts_ : 0;
  latest = {peer,
            sends ? flow_between(actor, other, distance) : flow_between(other, actor, distance)};
  return latest.flow;
}

int Simulator::flow_between(int from, int to, int distance) {
  const auto count = static_cast<std::uint64_t>(actors_.schedules.size());
  const std::uint64_t key =
      (static_cast<std::uint64_t>(from) * count + static_cast<std::uint64_t>(to)) *
          static_cast<std::uint64_t>(hosts_) +
      static_cast<std::uint64_t>(distance);
  const auto [found, is_new] = flow_by_ends_.try_emplace(key, static_cast<int>(flows_.size()));
  if (!is_new) return found->second;
  const bool crosses = distance != 0 || host_of(from) != host_of(to);
  const bool far = !crosses && numa_node_of_[static_cast<std::size_t>(from)] !=
                                   numa_node_of_[static_cast<std::size_t>(to)];
  flows_.push_back(
      {.from = from,
       .to = to,
       .crosses_hosts = crosses,
       .receive_rate = machine_.costs.copy_rate * (far ? machine_.far_memory_share : 1.0),
       .messages = {},
       .receives = {}});
  return found->second;
}

/// Queues the flow's next segment for the link as soon as it is copied.
void Simulator::next_segment(int flow) {
  Flow& s = flows_[static_cast<std::size_t>(flow)];
  if (s.queued || s.messages.empty()) return;
  s.queued = true;
  const PendingSend& message = s.messages.front();
  const double ready = message.first_ready + message.taken / machine_.costs.copy_rate;
  if (ready <= now_) {
    enqueue(flow);
  } else {
    add_event(ready, Kind::segment_ready, flow);
  }
}

void Simulator::enqueue(int flow) {
  Flow& s = flows_[static_cast<std::size_t>(flow)];
  if (s.crosses_hosts) {
    const int host = host_of(s.from);
    queue_[static_cast<std::size_t>(host)].push_back(flow);
    serve_link(host);
    return;
  }
  PendingSend& message = s.messages.front();
  const double bytes = std::min(message.bytes_left, message.segment);
  add_event(now_ + machine_.costs.host_latency, Kind::segment_arrived, flow,
            static_cast<int>(bytes));
  message.bytes_left -= bytes;
  message.taken += bytes;
  if (message.bytes_left <= 0) s.messages.pop_front();
  s.queued = false;
  next_segment(flow);
}

/// Transmission time of `bytes` on a link, beginning at `time`.
double Simulator::time_on_link(Bucket& bucket, double time, double bytes) const {
  const double rate = machine_.costs.link_rate;
  const double at_once =
      std::min(machine_.link_burst_bytes, bucket.bytes + (time - bucket.time) * rate);
  const double seconds = std::max(0.0, bytes - at_once) / rate;
  bucket = {std::max(0.0, at_once - bytes), time + seconds};
  return seconds;
}

void Simulator::continue_after(const Simulator& before) {
  const auto take = [&](std::vector<Bucket>& own, const std::vector<Bucket>& theirs) {
    own = theirs;
    for (auto& bucket : own) bucket.time -= before.outcome_.seconds;
  };
  take(out_buckets_, before.out_buckets_);
  take(in_buckets_, before.in_buckets_);
}

void Simulator::serve_link(int host) {
  const auto h = static_cast<std::size_t>(host);
  if (link_busy_[h] || queue_[h].empty()) return;
  const int flow = queue_[h].front();
  queue_[h].pop_front();
  Flow& s = flows_[static_cast<std::size_t>(flow)];
  const auto& costs = machine_.costs;
  PendingSend& message = s.messages.front();
  const double bytes = std::min(message.bytes_left, message.segment);
  const double left = now_ + time_on_link(out_buckets_[h], now_, bytes);
  const auto to = static_cast<std::size_t>(actors_.one_host_for_all ? host : host_of(s.to));
  double& in_free = link_in_free_[to];
  const double entering = std::max(now_ + costs.link_latency, in_free);
  in_free = std::max(left + costs.link_latency,
                     entering + time_on_link(in_buckets_[to], entering, bytes));
  add_event(in_free, Kind::segment_arrived, flow, static_cast<int>(bytes));
  link_busy_[h] = true;
  add_event(left, Kind::link_free, host);
  waiting_[h] -= bytes;
  message.bytes_left -= bytes;
  message.taken += bytes;
  if (message.bytes_left <= 0) {
    if (message.slot >= 0) add_event(left, Kind::step_done, s.from, message.slot);
    s.messages.pop_front();
  }
  s.queued = false;
  next_segment(flow);
}

void Simulator::arrive(int flow, double bytes) {
  flows_[static_cast<std::size_t>(flow)].arrived += bytes;
  deliver(flow);
}

/// Delivers arrived bytes to the posted receives.
void Simulator::deliver(int flow) {
  Flow& s = flows_[static_cast<std::size_t>(flow)];
  const auto& costs = machine_.costs;
  while (!s.receives.empty() && s.arrived > 0) {
    PendingReceive& receive = s.receives.front();
    const double bytes = std::min(receive.bytes_left, s.arrived);
    double work = bytes / s.receive_rate + (receive.reduces ? bytes / costs.reduce_rate : 0);
    if (!receive.begun) work += costs.message_cost;
    receive.begun = true;
    const double done = occupy_core(s.to, work);
    s.arrived -= bytes;
    receive.bytes_left -= bytes;
    if (receive.bytes_left > 0) break;
    add_event(done, Kind::step_done, s.to, receive.slot);
    s.receives.pop_front();
  }
}

}  // namespace tutti::model
