// Broadcast, scatter and ring ("relay"): the root deals out chunks in turn; a ring of the other
// ranks forwards them.
//
//     root   0 ► A   1 ► B   2 ► C   3 ► A   4 ► B …    chunk c enters at receiver c mod (p − 1)
//     ring   A ► C ► B ► A                              and stops before it is back there
//
//     rounds        p − 2 + n/chunk
//     bytes sent    root n, the others (p − 2)/(p − 1)·n
//     chosen        by name only: the chain has the same figures and enters each host once
//
// Paper: M. Barnett, L. Shuler, R. van de Geijn, S. Gupta, D. G. Payne and J. Watts, Interprocessor
// Collective Communication Library (InterCom), SHPCC 1994: scatter, then collect on a ring. Here
// both run concurrently.
//
// The ring runs against the order in which the root deals. So every receiver sees the chunks in
// ascending order, which excludes deadlocks for any window: the lowest chunk that is missing
// anywhere can always be sent.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

namespace {

struct Relay {
  const ScheduleArguments& arguments;
  std::int64_t receivers;  // m
  int up;                  // the neighbour that sends chunks to this rank
  int down;

  [[nodiscard]] std::int64_t turns_from(std::int64_t first_chunk) const {
    return divide_up(std::max<std::int64_t>(chunk_count(arguments) - first_chunk, 0), receivers);
  }
  // Chunk first + i·m + j.
  [[nodiscard]] Piece each(std::int64_t first) const {
    return {.offset = {first * arguments.chunk, receivers * arguments.chunk, arguments.chunk},
            .length = arguments.chunk,
            .end = {arguments.count}};
  }
  // Chunk first + i·m for j = 0 only: later ones are behind the end.
  [[nodiscard]] Piece once(std::int64_t first) const {
    Piece piece = each(first);
    piece.offset.inner = arguments.count;
    return piece;
  }
};

Loop pass_on(const Relay& relay, std::int64_t first, std::int64_t chunks) {
  return {.outer_count = 1,
          .inner_count = chunks,
          .steps = {recv_from(relay.up, Buffer::output, relay.each(first)),
                    send_to(relay.down, Buffer::output, relay.each(first))}};
}

Loop take_own(const Relay& relay, std::int64_t own, bool alone) {
  Loop loop{.outer_count = 1,
            .inner_count = 1,
            .steps = {recv_from(relay.arguments.root, Buffer::output, relay.once(own))}};
  if (!alone) loop.steps.push_back(send_to(relay.down, Buffer::output, relay.once(own)));
  return loop;
}

// One turn per round: the previous turn's last chunk, which the next neighbour has from the root;
// this rank's chunk; the rest.
Loop turns(const Relay& relay, std::int64_t own) {
  Loop loop = take_own(relay, own, relay.receivers == 1);
  if (relay.receivers > 1)
    loop.steps.insert(loop.steps.begin(), recv_from(relay.up, Buffer::output, relay.once(own - 1)));
  loop.outer_count = relay.turns_from(own - 1);
  if (relay.receivers == 1) loop.outer_count = relay.turns_from(own);
  if (relay.receivers > 2) {
    const Loop rest = pass_on(relay, own + 1, relay.receivers - 2);
    loop.inner_count = rest.inner_count;
    loop.steps.insert(loop.steps.end(), rest.steps.begin(), rest.steps.end());
  }
  return loop;
}

Loop deal(const ScheduleArguments& arguments, const RankOrder& order) {
  const std::int64_t receivers = arguments.size - 1;
  Loop loop;
  loop.outer_count = divide_up(chunk_count(arguments), receivers);
  loop.steps.reserve(static_cast<std::size_t>(receivers));
  for (int k = 0; k < receivers; ++k)
    loop.steps.push_back(send_to(order.rank_at(1 + k), Buffer::output,
                                 {.offset = {k * arguments.chunk, receivers * arguments.chunk, 0},
                                  .length = arguments.chunk,
                                  .end = {arguments.count}}));
  return loop;
}

}  // namespace

Schedule broadcast_scatter_ring(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "scatter_ring", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const RankOrder order(arguments, arguments.root);
  if (order.position() == 0) {
    schedule.loops.push_back(deal(arguments, order));
    return schedule;
  }
  const int receivers = arguments.size - 1;
  const int own = order.position() - 1;
  const Relay relay{.arguments = arguments,
                    .receivers = receivers,
                    .up = order.rank_at(1 + (own + 1) % receivers),
                    .down = order.rank_at(1 + (own + receivers - 1) % receivers)};
  if (own > 0 || receivers == 1) {
    if (own > 1) schedule.loops.push_back(pass_on(relay, 0, own - 1));
    schedule.loops.push_back(turns(relay, own));
  } else {
    // Receiver 0 gets the first chunk of all; its turns start one round later.
    schedule.loops.push_back(take_own(relay, 0, false));
    if (receivers > 2) schedule.loops.push_back(pass_on(relay, 1, receivers - 2));
    schedule.loops.push_back(turns(relay, receivers));
  }
  return schedule;
}

}  // namespace tutti::algorithm
