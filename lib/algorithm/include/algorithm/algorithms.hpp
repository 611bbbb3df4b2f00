#pragma once

#include <cstdint>

#include "algorithm/schedule.hpp"

/// One pure function per algorithm. All ranks call it with the same ScheduleArguments, except
/// `rank`, `in_place` and, for v-forms, what ScheduleArguments says; then the schedules match. No
/// schedule deadlocks with a window of two or more steps. docs/algorithms.md has the figures.
///
/// Lengths are in elements. A block is what one rank sends to, or receives from, another rank or
/// all; blocks are in rank order, without gaps. A slice is a share of one buffer, about count /
/// size. Contents of the buffers:
///
///     operation        input                   output                   in place, in output
///     broadcast,       –                       count                    always
///     fan_out
///     all_reduce       count                   count                    count
///     reduce           count                   root: count              root: count
///     all_gather       block                   all blocks               all, the own at its place
///     gather           block                   root: all blocks         root: the same
///     scatter          root: all blocks        block                    root: all, none moved
///     reduce_scatter   all blocks              block                    all, the result at the own
///                                                                       place, the rest unchanged
///     scan             count                   count                    count
///     exclusive_scan   count                   count; rank 0: none      count
///     all_to_all       a block for each rank   a block from each rank   a block a rank
///
/// Ranks other than the root have no such buffer. Whether a rank works in place may differ between
/// ranks (in reduce, gather and scatter it concerns the root only) and does not affect what is
/// sent. Input is not written. Without elements there are no steps.
namespace tutti::algorithm {

/// Minimum window: the number of consecutive steps in flight that every schedule needs, a send and
/// the recv beside it.
inline constexpr int min_window = 2;

/// "direct": the root sends the whole buffer to each other rank.
[[nodiscard]] Schedule fan_out_direct(const ScheduleArguments& arguments);

/// "binomial": every rank that has the buffer forwards all of it, so the number of owners doubles
/// each round.
[[nodiscard]] Schedule broadcast_binomial(const ScheduleArguments& arguments);

/// "chain": chunks travel down one chain of all ranks.
[[nodiscard]] Schedule broadcast_chain(const ScheduleArguments& arguments);

/// "scatter_ring": the root deals out chunks in turn; meanwhile a ring of the other ranks completes
/// each copy. The root's schedule has one pattern per peer.
[[nodiscard]] Schedule broadcast_scatter_ring(const ScheduleArguments& arguments);

/// "leaders": down a binomial tree of one leader per host, then inside the hosts.
[[nodiscard]] Schedule broadcast_leaders(const ScheduleArguments& arguments);

/// "hierarchical": chunks travel down a chain of one leader per host, and inside the hosts.
[[nodiscard]] Schedule broadcast_hierarchical(const ScheduleArguments& arguments);

/// "recursive_doubling": partners at distances 1, 2, 4, … exchange whole buffers. Scratch: `count`
/// elements.
[[nodiscard]] Schedule all_reduce_recursive_doubling(const ScheduleArguments& arguments);

/// "ring": slices are reduced on the first way round the ring and distributed on the second. Any
/// chunk is adjusted to the slices.
[[nodiscard]] Schedule all_reduce_ring(const ScheduleArguments& arguments);

/// "dissemination": ignores `count` and `chunk`. An element is one byte; the caller sets
/// scratch[0], and the operator does not matter: the data only orders the steps.
[[nodiscard]] Schedule barrier_dissemination(const ScheduleArguments& arguments);

/// "leaders": inside hosts, then "dissemination" between their leaders, then inside. As there.
[[nodiscard]] Schedule barrier_leaders(const ScheduleArguments& arguments);

/// "leaders": one leader per host reduces its host's contributions; leaders exchange sums by
/// recursive doubling. Scratch: `count` elements at leaders.
[[nodiscard]] Schedule all_reduce_leaders(const ScheduleArguments& arguments);

/// "rabenseifner": reduce-scatter by halving, all-gather by doubling, of slices.
[[nodiscard]] Schedule all_reduce_rabenseifner(const ScheduleArguments& arguments);

/// "gathered": every rank receives all contributions and combines them in rank order. Scratch:
/// size·count.
[[nodiscard]] Schedule all_reduce_gathered(const ScheduleArguments& arguments);

/// "hierarchical": reduces inside hosts, then between their leaders, and distributes inside. Any
/// chunk is adjusted to the parts.
[[nodiscard]] Schedule all_reduce_hierarchical(const ScheduleArguments& arguments);

/// "slices": each rank receives one slice of all contributions, combines it in rank order, and
/// sends the result to all. Scratch: size·chunk.
[[nodiscard]] Schedule all_reduce_slices(const ScheduleArguments& arguments);

/// "binomial": sums move up a tree. Scratch: count, on ranks between leaves and root.
[[nodiscard]] Schedule reduce_binomial(const ScheduleArguments& arguments);

/// "chain": chunks are reduced along one chain of all ranks. Scratch: up to 8 chunks, on ranks
/// between its ends.
[[nodiscard]] Schedule reduce_chain(const ScheduleArguments& arguments);

/// "hierarchical": one leader per host reduces its host's contributions; their sums move up a
/// binomial tree of hosts, chunk by chunk. Scratch: count, on leaders other than the root that have
/// children or neighbours.
[[nodiscard]] Schedule reduce_hierarchical(const ScheduleArguments& arguments);

/// "gathered": contributions move up a tree to the root, which combines them in rank order.
/// Scratch: size·count at the root, (ranks of the subtree - 1)·count elsewhere.
[[nodiscard]] Schedule reduce_gathered(const ScheduleArguments& arguments);

/// "slices": each rank receives one slice of all contributions, combines it in rank order, and
/// sends the result to the root. Scratch: (size + 1)·chunk, at the root size·chunk.
[[nodiscard]] Schedule reduce_slices(const ScheduleArguments& arguments);

/// "bruck": in each round every rank receives as many blocks as it has.
[[nodiscard]] Schedule all_gather_bruck(const ScheduleArguments& arguments);

/// "ring": each block travels once round the ring. Also all_gather_v.
[[nodiscard]] Schedule all_gather_ring(const ScheduleArguments& arguments);

/// "hierarchical": rings of the ranks with the same index on their hosts, and shared memory inside.
/// Also all_gather_v.
[[nodiscard]] Schedule all_gather_hierarchical(const ScheduleArguments& arguments);

/// "recursive_halving": in each round every rank sends half of its sums. Scratch: half of all
/// blocks, rounded up; none for two ranks.
[[nodiscard]] Schedule reduce_scatter_recursive_halving(const ScheduleArguments& arguments);

/// "ring": the sum of each block travels once round the ring. Scratch: up to 16 chunks; up to 8 for
/// three ranks, none for two. Also reduce_scatter_v.
[[nodiscard]] Schedule reduce_scatter_ring(const ScheduleArguments& arguments);

/// "hierarchical": each host reduces its contributions to a block, and sends the sum to the block's
/// rank. Scratch: the blocks of the ranks of other hosts to which this rank sends if all blocks fit
/// in one chunk, else 2 chunks for each such rank of one host. Also reduce_scatter_v.
[[nodiscard]] Schedule reduce_scatter_hierarchical(const ScheduleArguments& arguments);

/// "pairwise": each rank receives its block of all contributions and combines it in rank order.
/// Scratch: size·chunk. Also reduce_scatter_v.
[[nodiscard]] Schedule reduce_scatter_pairwise(const ScheduleArguments& arguments);

/// "binomial": blocks move up a tree. Scratch: (ranks of the subtree - 1)·count; none at the root.
[[nodiscard]] Schedule gather_binomial(const ScheduleArguments& arguments);

/// "direct": every rank sends its block to the root.
[[nodiscard]] Schedule gather_direct(const ScheduleArguments& arguments);
[[nodiscard]] Schedule gather_v_direct(const ScheduleArguments& arguments);

/// "binomial": blocks move down a tree. Scratch: (ranks of the subtree - 1)·count; none at the
/// root.
[[nodiscard]] Schedule scatter_binomial(const ScheduleArguments& arguments);

/// "direct": the root sends every rank its block.
[[nodiscard]] Schedule scatter_direct(const ScheduleArguments& arguments);
[[nodiscard]] Schedule scatter_v_direct(const ScheduleArguments& arguments);

/// "bruck": blocks travel distances 1, 2, 4, …, packed with others. Scratch: about 2·size·count.
[[nodiscard]] Schedule all_to_all_bruck(const ScheduleArguments& arguments);

/// "hierarchical": the blocks of a host's ranks for a rank of another host are one message.
/// Scratch: these blocks, and as many received if a host's ranks are not adjacent; in place without
/// shared memory all blocks, too. Blocks too long for one chunk, or of a single host: as
/// "pairwise".
[[nodiscard]] Schedule all_to_all_hierarchical(const ScheduleArguments& arguments);

/// "pairwise": each pair of ranks exchanges its blocks. Scratch: none; in place up to 8 chunks.
/// Also all_to_all_v, which has no in-place form.
[[nodiscard]] Schedule all_to_all_pairwise(const ScheduleArguments& arguments);

/// "chain": chunks of sums are passed on from rank to rank. Scratch: none; exclusive up to 8
/// chunks.
[[nodiscard]] Schedule scan_chain(const ScheduleArguments& arguments);
[[nodiscard]] Schedule exclusive_scan_chain(const ScheduleArguments& arguments);

/// "recursive_doubling": sums of 1, 2, 4, … ranks move to the ranks behind them. Scratch: count.
[[nodiscard]] Schedule scan_recursive_doubling(const ScheduleArguments& arguments);
[[nodiscard]] Schedule exclusive_scan_recursive_doubling(const ScheduleArguments& arguments);

/// "pairwise": each rank receives the contributions of all lower ranks and combines them in rank
/// order. Scratch: up to size·chunk.
[[nodiscard]] Schedule scan_pairwise(const ScheduleArguments& arguments);
[[nodiscard]] Schedule exclusive_scan_pairwise(const ScheduleArguments& arguments);

}  // namespace tutti::algorithm
