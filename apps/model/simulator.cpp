#include "model/simulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/survey.hpp"

namespace tutti::model {

namespace {

using algorithm::Step;
using algorithm::StepKind;

/// What one stream may send before another has its turn.
constexpr double shortest_segment = 64 << 10;
/// A long message is no more segments than this, unless they would be longer than the longest.
constexpr double max_segments = 32;
constexpr double longest_segment = 1 << 30;
/// What a socket takes of a message before the link has sent it.
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
  core_free_.resize(static_cast<std::size_t>(hosts_) * static_cast<std::size_t>(cores));
  line_.resize(static_cast<std::size_t>(hosts_));
  waiting_.resize(static_cast<std::size_t>(hosts_));
  link_busy_.resize(static_cast<std::size_t>(hosts_));
  link_in_free_.resize(static_cast<std::size_t>(hosts_));
  // Empty, as right after a call that left no time to rest.
  out_buckets_.resize(static_cast<std::size_t>(hosts_));
  in_buckets_.resize(static_cast<std::size_t>(hosts_));
}

int Simulator::host_of(int actor) const {
  const int rank = actors_.rank[static_cast<std::size_t>(actor)];
  return machine_.host[static_cast<std::size_t>(rank)];
}

void Simulator::add_event(double time, Kind kind, int what, int detail) {
  agenda_.push({time, events_++, kind, what, detail});
}

/// When the actor's core, which does one thing after the other, is done with this.
double Simulator::use_core(int actor, double seconds) {
  double& free = core_free_[static_cast<std::size_t>(core_of_[static_cast<std::size_t>(actor)])];
  free = std::max(free, now_) + seconds;
  return free;
}

Outcome Simulator::run() {
  const int count = static_cast<int>(windows_.size());
  for (int actor = 0; actor < count; ++actor) refill(actor);
  while (!agenda_.empty()) {
    const Event event = agenda_.top();
    agenda_.pop();
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
        line_up(event.what);
        break;
      case Kind::segment_arrived:
        arrive(event.what, event.detail);
        break;
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
    const int stream = stream_for(actor, step.peer, false);
    streams_[static_cast<std::size_t>(stream)].takers.push_back(
        {bytes_of(step), static_cast<int>(slot), step.kind == StepKind::recv_reduce});
    feed(stream);
  } else {
    const double parts = step.kind == StepKind::combine ? step.parts : 1;
    const double rate = step.kind == StepKind::copy ? costs.copy_rate : costs.reduce_rate;
    add_event(use_core(actor, bytes_of(step) * parts / rate), Kind::step_done, actor,
              static_cast<int>(slot));
  }
  start_ready(actor, followers);
}

void Simulator::start_send(int actor, std::size_t slot) {
  const Step& step = windows_[static_cast<std::size_t>(actor)].step(slot);
  const auto& costs = machine_.costs;
  const double bytes = bytes_of(step);
  const int stream = stream_for(actor, step.peer, true);
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  ++outcome_.messages;
  const double copying = bytes / costs.copy_rate;
  const double copied = use_core(actor, costs.message_cost + copying);
  const double segment =
      std::clamp(std::floor(bytes / max_segments), shortest_segment, longest_segment);
  Message message{.bytes_left = bytes,
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
    add_event(copied + costs.host_latency, Kind::segment_arrived, stream, static_cast<int>(bytes));
    return;
  }
  s.messages.push_back(message);
  next_segment(stream);
}

void Simulator::finish(int actor, std::size_t slot) {
  outcome_.seconds = std::max(outcome_.seconds, now_);
  start_ready(actor, windows_[static_cast<std::size_t>(actor)].finish(slot));
  refill(actor);
}

int Simulator::stream_for(int actor, int peer, bool sends) {
  Latest& latest = latest_[static_cast<std::size_t>(actor)][sends ? 1 : 0];
  if (latest.peer == peer) return latest.stream;
  const int other = actors_.actor_of[static_cast<std::size_t>(peer)];
  const int there = machine_.host[static_cast<std::size_t>(peer)];
  const int away = sends ? there - host_of(actor) : host_of(actor) - there;
  const int distance = actors_.one_host_for_all ? (away + hosts_) % hosts_ : 0;
  latest = {peer, sends ? stream_of(actor, other, distance) : stream_of(other, actor, distance)};
  return latest.stream;
}

int Simulator::stream_of(int from, int to, int distance) {
  const auto count = static_cast<std::uint64_t>(actors_.schedules.size());
  const std::uint64_t key =
      (static_cast<std::uint64_t>(from) * count + static_cast<std::uint64_t>(to)) *
          static_cast<std::uint64_t>(hosts_) +
      static_cast<std::uint64_t>(distance);
  const auto [found, is_new] = stream_by_ends_.try_emplace(key, static_cast<int>(streams_.size()));
  if (!is_new) return found->second;
  const bool crosses = distance != 0 || host_of(from) != host_of(to);
  const bool far = !crosses && numa_node_of_[static_cast<std::size_t>(from)] !=
                                   numa_node_of_[static_cast<std::size_t>(to)];
  streams_.push_back(
      {.from = from,
       .to = to,
       .crosses_hosts = crosses,
       .receive_rate = machine_.costs.copy_rate * (far ? machine_.far_memory_share : 1.0),
       .messages = {},
       .takers = {}});
  return found->second;
}

/// The stream's next segment joins those that wait for the link as soon as it is copied.
void Simulator::next_segment(int stream) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  if (s.in_line || s.messages.empty()) return;
  s.in_line = true;
  const Message& message = s.messages.front();
  const double ready = message.first_ready + message.taken / machine_.costs.copy_rate;
  if (ready <= now_) {
    line_up(stream);
  } else {
    add_event(ready, Kind::segment_ready, stream);
  }
}

void Simulator::line_up(int stream) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  if (s.crosses_hosts) {
    const int host = host_of(s.from);
    line_[static_cast<std::size_t>(host)].push_back(stream);
    serve_link(host);
    return;
  }
  Message& message = s.messages.front();
  const double bytes = std::min(message.bytes_left, message.segment);
  add_event(now_ + machine_.costs.host_latency, Kind::segment_arrived, stream,
            static_cast<int>(bytes));
  message.bytes_left -= bytes;
  message.taken += bytes;
  if (message.bytes_left <= 0) s.messages.pop_front();
  s.in_line = false;
  next_segment(stream);
}

/// How long a link takes for what begins to pass at `time`.
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
  if (link_busy_[h] || line_[h].empty()) return;
  const int stream = line_[h].front();
  line_[h].pop_front();
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  const auto& costs = machine_.costs;
  Message& message = s.messages.front();
  const double bytes = std::min(message.bytes_left, message.segment);
  const double left = now_ + time_on_link(out_buckets_[h], now_, bytes);
  const auto to = static_cast<std::size_t>(actors_.one_host_for_all ? host : host_of(s.to));
  double& in_free = link_in_free_[to];
  const double entering = std::max(now_ + costs.link_latency, in_free);
  in_free = std::max(left + costs.link_latency,
                     entering + time_on_link(in_buckets_[to], entering, bytes));
  add_event(in_free, Kind::segment_arrived, stream, static_cast<int>(bytes));
  link_busy_[h] = true;
  add_event(left, Kind::link_free, host);
  waiting_[h] -= bytes;
  message.bytes_left -= bytes;
  message.taken += bytes;
  if (message.bytes_left <= 0) {
    if (message.slot >= 0) add_event(left, Kind::step_done, s.from, message.slot);
    s.messages.pop_front();
  }
  s.in_line = false;
  next_segment(stream);
}

void Simulator::arrive(int stream, double bytes) {
  streams_[static_cast<std::size_t>(stream)].arrived += bytes;
  feed(stream);
}

/// Gives what has arrived to those who wait for it.
void Simulator::feed(int stream) {
  Stream& s = streams_[static_cast<std::size_t>(stream)];
  const auto& costs = machine_.costs;
  while (!s.takers.empty() && s.arrived > 0) {
    Taker& taker = s.takers.front();
    const double bytes = std::min(taker.bytes_left, s.arrived);
    double work = bytes / s.receive_rate + (taker.reduces ? bytes / costs.reduce_rate : 0);
    if (!taker.begun) work += costs.message_cost;
    taker.begun = true;
    const double done = use_core(s.to, work);
    s.arrived -= bytes;
    taker.bytes_left -= bytes;
    if (taker.bytes_left > 0) break;
    add_event(done, Kind::step_done, s.to, taker.slot);
    s.takers.pop_front();
  }
}

}  // namespace tutti::model
