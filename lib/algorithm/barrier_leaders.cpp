// Barrier by leaders: each host's leader waits for its host, the leaders synchronize by
// dissemination, and release their hosts.
//
//     0 ◄─ 1   2 ◄─ 3        rounds        log2 h between h hosts, two inside
//     0 ◄────► 2             bytes sent    1 a round, by leaders
//     0 ─► 1   2 ─► 3        chosen        several hosts with several ranks
//
// Only data orders steps: what a leader sends depends on data of all ranks of its host, and what
// its host reads in the end on data of all leaders.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "leaders.hpp"

namespace tutti::algorithm {

Schedule barrier_leaders(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "leaders", .loops = {}, .scratch_elements = 1};
  if (arguments.size == 1) return schedule;
  const Leaders leaders(arguments);
  const bool shares = leaders.groups().shares();
  const auto append = [&](std::vector<StepPattern> steps) {
    schedule.loops.push_back({1, 1, std::move(steps)});
  };
  const auto first = whole(1);
  const auto& neighbours = leaders.neighbours();
  if (!neighbours.empty()) {
    std::vector<StepPattern> steps;
    if (leaders.leads()) {
      if (shares) steps.push_back(publish_nothing());
      for (const int peer : neighbours) {
        steps.push_back(shares ? read_reduce_of(peer, Buffer::scratch, Buffer::scratch, first)
                               : recv_reduce_from(peer, Buffer::scratch, Buffer::scratch, first));
      }
    } else {
      steps.push_back(shares ? publish_of(Buffer::scratch, first)
                             : send_to(leaders.here(), Buffer::scratch, first));
    }
    if (shares) steps.push_back(release_chunk());
    append(std::move(steps));
  }
  if (leaders.leads()) {
    leaders.append_between(schedule, barrier_dissemination(leaders.between(arguments)));
  }
  if (neighbours.empty()) return schedule;
  // The leader's last element shows that all hosts have come.
  const auto last = schedule.scratch_elements - 1;
  std::vector<StepPattern> steps;
  if (leaders.leads()) {
    if (shares) steps.push_back(publish_of(Buffer::scratch, whole(Region{last, last + 1})));
    for (std::size_t i = 0; !shares && i < neighbours.size(); ++i) {
      steps.push_back(send_to(neighbours[i], Buffer::scratch, whole(Region{last, last + 1})));
    }
  } else {
    schedule.scratch_elements = 2;
    const auto second = whole(Region{1, 2});
    if (shares) {
      // The leader has one element for each round of dissemination, and one more.
      std::int64_t leaders_last = 0;
      for (int distance = 1; distance < leaders.groups().hosts(); distance *= 2) ++leaders_last;
      steps.push_back(publish_nothing());
      steps.push_back(read_of(leaders.here(), Buffer::scratch, second));
      steps.back().remote_shift = {leaders_last - 1};
    } else {
      steps.push_back(recv_from(leaders.here(), Buffer::scratch, second));
    }
  }
  if (shares) steps.push_back(release_chunk());
  append(std::move(steps));
  return schedule;
}

}  // namespace tutti::algorithm
