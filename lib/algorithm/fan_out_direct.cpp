// Fan-out, direct: the root itself sends to every other rank.
//
//     root ──► root+1        rounds        1
//       ├────► root+2        bytes sent    root (p − 1)·n, the others 0
//       └────► …             chosen        always for fan_out; for broadcast to a single peer
//
// Between hosts, the ranks of the root's host read the buffer from shared memory if they have it.
//
// Paper: none; the "flat tree" of every textbook. Starting beside the root, not at rank 0, keeps
// several fan-outs with different roots from meeting at one receiver.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

Schedule fan_out_direct(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const HostGroups groups(arguments);
  const auto whole_buffer = whole(arguments.count);
  const auto chunk = published_chunk(arguments);
  const auto chunks = divide_up(arguments.count, chunk);
  const auto piece = chunk_of({0, arguments.count}, chunk);
  if (arguments.rank != arguments.root) {
    if (groups.shares_with(arguments.root)) {
      append_round(schedule, {1,
                              chunks,
                              {publish_nothing(), read_of(arguments.root, Buffer::output, piece),
                               release_round()}});
    } else {
      append_round(schedule, {1, 1, {recv_from(arguments.root, Buffer::output, whole_buffer)}});
    }
    return schedule;
  }
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    if (groups.shares_with(peer)) continue;
    append_round(schedule, {1, 1, {send_to(peer, Buffer::output, whole_buffer)}});
  }
  if (groups.shares())
    append_round(schedule, {1, chunks, {publish_of(Buffer::output, piece), release_round()}});
  return schedule;
}

}  // namespace tutti::algorithm
