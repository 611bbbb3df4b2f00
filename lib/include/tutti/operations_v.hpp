#pragma once

#include <cstddef>
#include <span>

#include "tutti/collective.hpp"
#include "tutti/detail/describe.hpp"
#include "tutti/options.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// The v-forms of Communicator's collectives: blocks of different lengths. All else is as in
/// Operations.
///
/// `blocks` has the elements of each rank's block, in rank order; `total` is their sum, and a block
/// may be empty. The blocks of a buffer are in rank order without gaps, or at the displacements
/// that `blocks` names. All ranks pass the same counts; of gather_v() and scatter_v() only the root
/// needs them. Each rank has its own displacements. Where the lengths of two ranks differ, the call
/// ends with Error{mismatch}, or, where only these two know, with Error{timeout}.
template <class Communicator>
class OperationsV {
 public:
  /// Gathers `send` (blocks.counts[rank()] elements) of all ranks into `recv` (total) on all ranks.
  void all_gather_v(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, const Blocks& blocks,
                    const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> units(blocks);
    self().run(detail::v_form(Operation::all_gather_v, send, recv, units), options);
  }
  /// Non-blocking all_gather_v().
  Work start_all_gather_v(auto&& send, MatchingBuffer<decltype(send)> auto&& recv,
                          const Blocks& blocks, const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> units(blocks);
    return self().start(detail::v_form(Operation::all_gather_v, send, recv, units), options);
  }

  /// As all_gather_v(), on rank `root` only; on other ranks `recv` is unchanged and may be empty.
  void gather_v(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, const Blocks& blocks,
                int root, const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> units(blocks);
    self().run(detail::v_form(Operation::gather_v, send, recv, units, root), options);
  }
  /// Non-blocking gather_v().
  Work start_gather_v(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, const Blocks& blocks,
                      int root, const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> units(blocks);
    return self().start(detail::v_form(Operation::gather_v, send, recv, units, root), options);
  }

  /// Rank r gets block r of rank `root`'s `send` (total elements; on other ranks it may be empty)
  /// in `recv` (blocks.counts[r]).
  void scatter_v(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, const Blocks& blocks,
                 int root, const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> units(blocks);
    self().run(detail::v_form(Operation::scatter_v, send, recv, units, root), options);
  }
  /// Non-blocking scatter_v().
  Work start_scatter_v(auto&& send, MatchingBuffer<decltype(send)> auto&& recv,
                       const Blocks& blocks, int root, const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> units(blocks);
    return self().start(detail::v_form(Operation::scatter_v, send, recv, units, root), options);
  }

  /// Combines `send` (total elements) of all ranks by `op`; rank r gets block r in `recv`
  /// (counts[r]).
  void reduce_scatter_v(auto&& send, ReducedBuffer<decltype(send)> auto&& recv,
                        std::span<const std::size_t> counts, const Reduction& op,
                        const CallOptions& options = {}) {
    self().run(detail::reduce_scatter_v(send, recv, counts, op), options);
  }
  /// Non-blocking reduce_scatter_v().
  Work start_reduce_scatter_v(auto&& send, ReducedBuffer<decltype(send)> auto&& recv,
                              std::span<const std::size_t> counts, const Reduction& op,
                              const CallOptions& options = {}) {
    return self().start(detail::reduce_scatter_v(send, recv, counts, op), options);
  }

  /// Sends block r of `send` (send_blocks.counts[r] elements) to rank r and receives block r of
  /// `recv` (recv_blocks.counts[r]) from it. Has no in-place form.
  void all_to_all_v(Buffer auto&& send, const Blocks& send_blocks,
                    MatchingBuffer<decltype(send)> auto&& recv, const Blocks& recv_blocks,
                    const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> sent(send_blocks);
    const detail::UnitBlocks<ElementOf<decltype(recv)>> received(recv_blocks);
    self().run(detail::all_to_all_v(send, sent, recv, received), options);
  }
  /// Non-blocking all_to_all_v().
  Work start_all_to_all_v(Buffer auto&& send, const Blocks& send_blocks,
                          MatchingBuffer<decltype(send)> auto&& recv, const Blocks& recv_blocks,
                          const CallOptions& options = {}) {
    const detail::UnitBlocks<ElementOf<decltype(recv)>> sent(send_blocks);
    const detail::UnitBlocks<ElementOf<decltype(recv)>> received(recv_blocks);
    return self().start(detail::all_to_all_v(send, sent, recv, received), options);
  }

 private:
  [[nodiscard]] Communicator& self() { return static_cast<Communicator&>(*this); }
};

}  // namespace tutti
