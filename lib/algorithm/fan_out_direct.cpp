// Fan-out, direct: the root itself sends to every other rank, or, between hosts, to one rank of
// every other host, its leader. The others of a host get the buffer from its leader, or on the
// root's host from the root, chunk by chunk.
//
//     root ──► root+1        rounds        1, one more inside hosts
//       ├────► root+2        bytes sent    root (p − 1)·n on one host, (h − 1)·n between h hosts
//       └────► …             chosen        always for fan_out; for broadcast to a single peer
//
// Paper: none; the "flat tree" of every textbook. Starting beside the root, not at rank 0, keeps
// several fan-outs with different roots from meeting at one receiver.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "leaders.hpp"

namespace tutti::algorithm {

namespace {

Schedule between_hosts(const Leaders& leaders, const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  const int hosts = leaders.groups().hosts();
  if (arguments.rank == arguments.root) {
    for (int distance = 1; distance < hosts; ++distance) {
      const int peer = leaders.of_host(leaders.groups().host_at(distance));
      append_round(schedule, {1, 1, {send_to(peer, Buffer::output, whole(arguments.count))}});
    }
  }
  const auto chunk = published_chunk(arguments);
  const auto piece = chunk_of({0, arguments.count}, chunk);
  Loop loop;
  loop.inner_count = divide_up(arguments.count, chunk);
  if (leaders.leads() && arguments.rank != arguments.root) {
    loop.steps.push_back(recv_from(arguments.root, Buffer::output, piece));
  }
  leaders.append_broadcast_steps(loop.steps, piece);
  if (!loop.steps.empty()) schedule.loops.push_back(std::move(loop));
  return schedule;
}

}  // namespace

Schedule fan_out_direct(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const Leaders leaders(arguments, arguments.root);
  if (leaders.groups().hosts() > 1) return between_hosts(leaders, arguments);
  const auto whole_buffer = whole(arguments.count);
  if (arguments.rank != arguments.root) {
    append_round(schedule, {1, 1, {recv_from(arguments.root, Buffer::output, whole_buffer)}});
    return schedule;
  }
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    append_round(schedule, {1, 1, {send_to(peer, Buffer::output, whole_buffer)}});
  }
  return schedule;
}

}  // namespace tutti::algorithm
