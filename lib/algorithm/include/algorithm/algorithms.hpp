#pragma once

#include <cstdint>

#include "algorithm/schedule.hpp"

/// One function an algorithm. Each is pure: all ranks call it with the same Problem but for `rank`,
/// `in_place`, and what Problem says of v-forms, and the schedules fit together. All are free of
/// deadlocks for every window of two steps or more. docs/algorithms.md has the figures.
///
/// Lengths are elements. A block is what one rank gives to, or gets from, one other or all; blocks
/// lie in the order of ranks, without gaps. A slice is a share of one buffer, about count / size.
/// What the buffers hold:
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
///     all_to_all       a block for each rank   a block from each rank   a block a rank
///
/// Who is not named as root has no such buffer. Ranks may differ in whether they work in place,
/// which is of the root alone in reduce, gather and scatter: it makes no difference to what is
/// sent. Input is not written to. No elements make no steps.
namespace tutti::algorithm {

/// The fewest consecutive steps that whoever runs a schedule must keep in flight: a send, and the
/// recv beside it.
inline constexpr int min_window = 2;

/// "direct": the root sends the whole buffer to each other rank.
[[nodiscard]] Schedule fan_out_direct(const Problem& problem);

/// "binomial": whoever has the buffer passes it on whole, so the number of owners doubles each
/// round.
[[nodiscard]] Schedule broadcast_binomial(const Problem& problem);

/// "chain": chunks travel down one chain of all ranks.
[[nodiscard]] Schedule broadcast_chain(const Problem& problem);

/// "scatter_ring": the root deals chunks out in turn, and a ring of the others completes each copy
/// meanwhile. The root's schedule has one pattern a peer.
[[nodiscard]] Schedule broadcast_scatter_ring(const Problem& problem);

/// "recursive_doubling": partners at distances 1, 2, 4, … exchange whole buffers. Scratch: `count`
/// elements.
[[nodiscard]] Schedule all_reduce_recursive_doubling(const Problem& problem);

/// "ring": slices are reduced on one way round the ring and handed out on the next. Any chunk is
/// made to fit the slices.
[[nodiscard]] Schedule all_reduce_ring(const Problem& problem);

/// "dissemination": `count` and `chunk` are not looked at. An element is one byte; the caller gives
/// scratch[0] a value, and what is done to bytes by reduce does not matter: the steps are there to
/// be waited for.
[[nodiscard]] Schedule barrier_dissemination(const Problem& problem);

/// "rabenseifner": reduce-scatter by halving, all-gather by doubling, of slices.
[[nodiscard]] Schedule all_reduce_rabenseifner(const Problem& problem);

/// "gathered": everyone gets all contributions and combines them in rank order. Scratch:
/// size·count.
[[nodiscard]] Schedule all_reduce_gathered(const Problem& problem);

/// "hierarchical": hosts add up inside, leaders between them, and hand out inside. Any chunk is
/// made to fit the parts.
[[nodiscard]] Schedule all_reduce_hierarchical(const Problem& problem);

/// "slices": each rank gets one slice of all contributions, combines it in rank order, and hands
/// the result to all. Scratch: size·chunk.
[[nodiscard]] Schedule all_reduce_slices(const Problem& problem);

/// "binomial": sums go up a tree. Scratch: count, on ranks between leaves and root.
[[nodiscard]] Schedule reduce_binomial(const Problem& problem);

/// "chain": chunks are added up on their way down one chain of all ranks. Scratch: up to 8 chunks,
/// on ranks between its ends.
[[nodiscard]] Schedule reduce_chain(const Problem& problem);

/// "gathered": contributions come to the root up a tree, and it combines them in rank order.
/// Scratch: size·count at the root, (ranks of the subtree - 1)·count elsewhere.
[[nodiscard]] Schedule reduce_gathered(const Problem& problem);

/// "slices": each rank gets one slice of all contributions, combines it in rank order, and gives
/// the result to the root. Scratch: (size + 1)·chunk, at the root size·chunk.
[[nodiscard]] Schedule reduce_slices(const Problem& problem);

/// "bruck": in each round everyone gets as many blocks as it has.
[[nodiscard]] Schedule all_gather_bruck(const Problem& problem);

/// "ring": each block travels once round the ring. Also all_gather_v.
[[nodiscard]] Schedule all_gather_ring(const Problem& problem);

/// "recursive_halving": in each round everyone hands half of its sums on. Scratch: half of all
/// blocks, rounded up; none for two ranks.
[[nodiscard]] Schedule reduce_scatter_recursive_halving(const Problem& problem);

/// "ring": the sum of each block travels once round the ring. Scratch: up to 16 chunks; up to 8 for
/// three ranks, none for two. Also reduce_scatter_v.
[[nodiscard]] Schedule reduce_scatter_ring(const Problem& problem);

/// "pairwise": each rank gets its block of all contributions and combines it in rank order.
/// Scratch: size·chunk. Also reduce_scatter_v.
[[nodiscard]] Schedule reduce_scatter_pairwise(const Problem& problem);

/// "binomial": blocks go up a tree. Scratch: (ranks of the subtree - 1)·count; none at the root.
[[nodiscard]] Schedule gather_binomial(const Problem& problem);

/// "direct": everyone sends its block to the root. Also gather_v.
[[nodiscard]] Schedule gather_direct(const Problem& problem);

/// "binomial": blocks go down a tree. Scratch: (ranks of the subtree - 1)·count; none at the root.
[[nodiscard]] Schedule scatter_binomial(const Problem& problem);

/// "direct": the root sends everyone its block. Also scatter_v.
[[nodiscard]] Schedule scatter_direct(const Problem& problem);

/// "bruck": blocks hop distances 1, 2, 4, …, together with others. Scratch: about 2·size·count.
[[nodiscard]] Schedule all_to_all_bruck(const Problem& problem);

/// "pairwise": each pair of ranks exchanges its blocks. Scratch: none; in place up to 8 chunks.
/// Also all_to_all_v, which has no in-place form.
[[nodiscard]] Schedule all_to_all_pairwise(const Problem& problem);

}  // namespace tutti::algorithm
