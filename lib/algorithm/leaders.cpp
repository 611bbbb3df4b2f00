#include "leaders.hpp"

#include <algorithm>
#include <stdexcept>

namespace tutti::algorithm {

Leaders::Leaders(const ScheduleArguments& arguments, int root)
    : groups_(arguments), rank_(arguments.rank), neighbours_(groups_.neighbours()) {
  for (int host = 0; host < groups_.hosts(); ++host) leaders_.push_back(groups_.rank_at(host, 0));
  if (root >= 0) leaders_[static_cast<std::size_t>(groups_.host_of(root))] = root;
}

void Leaders::append_reduce_steps(std::vector<StepPattern>& steps, const Piece& piece, Buffer mine,
                                  Buffer sum) const {
  if (neighbours_.empty()) return;
  const bool shares = groups_.shares();
  if (!leads()) {
    if (!shares) return steps.push_back(send_to(here(), mine, piece));
    steps.push_back(publish_of(mine, piece));
    return steps.push_back(release_chunk());
  }
  if (shares) steps.push_back(publish_nothing());
  for (const int peer : neighbours_) {
    const auto from = peer == neighbours_.front() ? mine : sum;
    steps.push_back(shares ? read_reduce_of(peer, sum, from, piece)
                           : recv_reduce_from(peer, sum, from, piece));
  }
  if (shares) steps.push_back(release_chunk());
}

void Leaders::append_reduce(Schedule& schedule, const ScheduleArguments& arguments,
                            Buffer mine) const {
  const auto chunk = groups_.shares() ? arguments.max_published : arguments.count;
  const auto piece = chunk_of({0, arguments.count}, chunk);
  std::vector<StepPattern> steps;
  append_reduce_steps(steps, piece, mine, Buffer::output);
  if (neighbours_.empty() && mine != Buffer::output)
    steps.push_back(local(StepKind::copy, Buffer::output, mine, piece));
  if (!steps.empty()) {
    schedule.loops.push_back({1, divide_up(arguments.count, chunk), std::move(steps)});
  }
}

void Leaders::append_broadcast_steps(std::vector<StepPattern>& steps, const Piece& piece) const {
  if (neighbours_.empty()) return;
  if (!groups_.shares()) {
    if (!leads()) return steps.push_back(recv_from(here(), Buffer::output, piece));
    for (const int peer : neighbours_) steps.push_back(send_to(peer, Buffer::output, piece));
    return;
  }
  if (leads()) {
    steps.push_back(publish_of(Buffer::output, piece));
  } else {
    steps.push_back(publish_nothing());
    steps.push_back(read_of(here(), Buffer::output, piece));
  }
  steps.push_back(release_chunk());
}

void Leaders::append_broadcast(Schedule& schedule, const ScheduleArguments& arguments) const {
  const auto chunk = groups_.shares() ? arguments.max_published : arguments.count;
  std::vector<StepPattern> steps;
  append_broadcast_steps(steps, chunk_of({0, arguments.count}, chunk));
  if (!steps.empty()) {
    schedule.loops.push_back({1, divide_up(arguments.count, chunk), std::move(steps)});
  }
}

ScheduleArguments Leaders::between(const ScheduleArguments& arguments) const {
  auto result = arguments;
  result.rank = groups_.host();
  result.size = groups_.hosts();
  result.root = groups_.host_of(arguments.root);
  result.in_place = true;
  result.host.clear();
  result.shares_memory = false;
  return result;
}

void Leaders::append_between(Schedule& schedule, const Schedule& of_hosts) const {
  if (of_hosts.passes != 1) throw std::invalid_argument("passes can't be joined to other loops");
  for (auto loop : of_hosts.loops) {
    for (auto& step : loop.steps) {
      if (step.peer_step != 0) throw std::invalid_argument("the peer moves with the loop");
      if (step.peer >= 0) step.peer = of_host(step.peer);
    }
    schedule.loops.push_back(std::move(loop));
  }
  schedule.scratch_elements = std::max(schedule.scratch_elements, of_hosts.scratch_elements);
}

}  // namespace tutti::algorithm
