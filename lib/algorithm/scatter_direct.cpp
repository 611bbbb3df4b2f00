// Scatter, direct: the root sends every rank its block. Also for blocks of different lengths; only
// the root knows all of them.
//
//     root ──► root+1        rounds        1
//       ├────► root+2        bytes sent    root all blocks but its own, the others 0
//       └────► …             scratch       none
//                            chosen        large blocks, few ranks; always for scatter_v
//
// Between hosts, the ranks of the root's host read their blocks from shared memory if they have it.
// Blocks of different lengths are messages: the ranks of a host do not know how many chunks they
// need.
//
// Paper: none; the "flat tree" of every textbook.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

namespace {

/// `shares(rank)`: `rank` reads its block from shared memory.
template <class Shares>
Schedule send_from_root(const ScheduleArguments& arguments, const Shares& shares) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  const Blocks blocks(arguments);
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    if (shares(peer)) continue;
    append_round(schedule, {1, 1, {send_to(peer, own_buffer(arguments), whole(blocks.at(peer)))}});
  }
  const Region own = blocks.at(arguments.root);
  if (!arguments.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, {0, own.length()}, Buffer::input, own.begin)}});
  return schedule;
}

Schedule receive_from_root(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  append_round(schedule,
               {1, 1, {recv_from(arguments.root, Buffer::output, whole(arguments.count))}});
  return schedule;
}

/// The blocks that `receivers` read, on the root's host: all in one chunk, or chunks of one block.
void append_inside(Schedule& schedule, const ScheduleArguments& arguments, const Region& published,
                   const std::vector<int>& receivers, std::int64_t chunk) {
  const Blocks blocks(arguments);
  std::vector<StepPattern> steps;
  if (arguments.rank == arguments.root) {
    steps.push_back(publish_of(own_buffer(arguments), chunk_of(published, chunk)));
  } else {
    steps.push_back(publish_nothing());
    if (std::find(receivers.begin(), receivers.end(), arguments.rank) != receivers.end()) {
      const Region own = blocks.at(arguments.rank);
      steps.push_back(read_of(arguments.root, Buffer::output,
                              chunk_of({0, own.length()}, std::min(chunk, own.length()))));
      steps.back().remote_shift = {own.begin};
    }
  }
  steps.push_back(release_chunk());
  append_round(schedule, {1, divide_up(published.length(), chunk), std::move(steps)});
}

}  // namespace

Schedule scatter_direct(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("direct", arguments);
  const HostGroups groups(arguments);
  const bool is_root = arguments.rank == arguments.root;
  if (!is_root && !groups.shares_with(arguments.root)) return receive_from_root(arguments);
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (is_root) {
    schedule = send_from_root(arguments, [&](int rank) { return groups.shares_with(rank); });
  }
  if (!groups.shares() || arguments.count == 0) return schedule;
  const Blocks blocks(arguments);
  const auto& here = groups.ranks_of(groups.host());
  const Region all = blocks.range(here.front(), here.back() + 1);
  if (all.length() <= arguments.max_published) {
    append_inside(schedule, arguments, all, here, all.length());
    return schedule;
  }
  const auto chunk = published_chunk(arguments);
  for (int index = 0; index < groups.here(); ++index) {
    const int peer = groups.rank_here(index);
    if (peer != arguments.root) append_inside(schedule, arguments, blocks.at(peer), {peer}, chunk);
  }
  return schedule;
}

Schedule scatter_v_direct(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("direct", arguments);
  if (arguments.rank != arguments.root) return receive_from_root(arguments);
  return send_from_root(arguments, [](int /*rank*/) { return false; });
}

}  // namespace tutti::algorithm
