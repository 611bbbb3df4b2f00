#pragma once

#include <cstdint>

#include "algorithm/schedule.hpp"

/// One function an algorithm. Each is pure: all ranks call it with the same Problem but for `rank`,
/// and the schedules fit together. All are free of deadlocks for every window of two steps or more.
/// docs/algorithms.md has the figures.
///
/// Broadcasts and fan_out work in `output` alone. Lengths are elements. A count of zero gives an
/// empty schedule.
namespace tutti::algorithm {

/// The fewest consecutive steps that whoever runs a schedule must keep in flight: a send, and the
/// recv beside it.
inline constexpr int least_window = 2;

/// "direct": the root sends the whole buffer to each other rank. The root's schedule has one step a
/// peer.
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

/// input[0, count) to rank `to`, and output[0, count) from rank `from`.
[[nodiscard]] Schedule send(const Problem& problem, int to);
[[nodiscard]] Schedule recv(const Problem& problem, int from);

/// Both at once. A rank that names itself on both sides copies; its counts must be equal.
/// Throws std::invalid_argument where it names itself on one side only, or with different counts.
[[nodiscard]] Schedule send_recv(const Problem& problem, int to, std::int64_t send_count, int from,
                                 std::int64_t recv_count);

}  // namespace tutti::algorithm
