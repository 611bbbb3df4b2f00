#pragma once

#include <span>

#include "tutti/collective.hpp"
#include "tutti/detail/describe.hpp"
#include "tutti/options.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// The collectives and messages of Communicator, for host and device memory alike.
///
/// A buffer is a contiguous range in host memory (std::vector, std::span, std::array) or a
/// tutti::device_span. All counts are elements: `count` is the same on all ranks, `size` the number
/// of ranks. Elements are numbers with a tutti::Type, of the same type on all ranks; operations
/// that do not reduce also take other trivially copyable types, which travel as their bytes. `send`
/// and `recv` have the same element type and do not overlap; tutti::in_place instead of `send`
/// means that `recv` holds the input (docs/semantics.md says where).
///
/// An operation blocks until its result is there; on device memory it returns when it is enqueued
/// on CallOptions::stream. `start_…` is the non-blocking form: it returns a Work, and the buffers
/// must stay valid until that is complete.
///
/// Each throws Error{usage} before anything is sent if buffers, counts, ranks or options do not
/// fit. Otherwise the operation, or the Work of a non-blocking one, throws Error{timeout,
/// peer_lost, mismatch, aborted, system}.
template <class Communicator>
class Operations {
 public:
  /// Copies `buffer` (count elements) of rank `root` to all ranks, by the fastest algorithm.
  void broadcast(WritableBuffer auto&& buffer, int root, const CallOptions& options = {}) {
    self().run(detail::one_buffer(Operation::broadcast, buffer, root), options);
  }
  /// Non-blocking broadcast().
  Work start_broadcast(WritableBuffer auto&& buffer, int root, const CallOptions& options = {}) {
    return self().start(detail::one_buffer(Operation::broadcast, buffer, root), options);
  }
  /// Copies one value, a number or a trivially copyable struct, of rank `root` to all ranks.
  void broadcast(Value auto& value, int root, const CallOptions& options = {}) {
    broadcast(std::span(&value, 1), root, options);
  }

  /// As broadcast(). Between hosts rank `root` sends one message to each rank; inside a host the
  /// data goes through shared memory.
  void fan_out(WritableBuffer auto&& buffer, int root, const CallOptions& options = {}) {
    self().run(detail::one_buffer(Operation::fan_out, buffer, root), options);
  }
  /// Non-blocking fan_out().
  Work start_fan_out(WritableBuffer auto&& buffer, int root, const CallOptions& options = {}) {
    return self().start(detail::one_buffer(Operation::fan_out, buffer, root), options);
  }

  /// recv[i] = send[i] of all ranks, combined by `op`: the same bits on all ranks. Both have count
  /// elements. `op` is an Operator or premultiplied_sum(factor). An average is the sum divided by
  /// `size`; of integers it truncates toward zero.
  void all_reduce(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
                  const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::all_reduce, send, recv, -1, op), options);
  }
  /// Non-blocking all_reduce().
  Work start_all_reduce(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
                        const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::all_reduce, send, recv, -1, op), options);
  }
  /// Returns `value` of all ranks, combined by `op`.
  template <Value T>
  requires Reducible<T>
  [[nodiscard]] T all_reduce(T value, const Reduction& op, const CallOptions& options = {}) {
    all_reduce(in_place, std::span(&value, 1), op, options);
    return value;
  }

  /// As all_reduce(), with the result on rank `root` only; on other ranks `recv` is unchanged and
  /// may be empty.
  void reduce(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op, int root,
              const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::reduce, send, recv, root, op), options);
  }
  /// Non-blocking reduce().
  Work start_reduce(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
                    int root, const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::reduce, send, recv, root, op), options);
  }

  /// On rank r, recv[i] = send[i] of ranks 0 to r, combined by `op`, which is not average. Both
  /// have count elements. In host memory only.
  void scan(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
            const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::scan, send, recv, -1, op), options);
  }
  /// Non-blocking scan().
  Work start_scan(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
                  const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::scan, send, recv, -1, op), options);
  }
  /// As scan(), of ranks 0 to r - 1. On rank 0 `recv` is unchanged and may be empty.
  void exclusive_scan(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
                      const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::exclusive_scan, send, recv, -1, op), options);
  }
  /// Non-blocking exclusive_scan().
  Work start_exclusive_scan(auto&& send, ReducedBuffer<decltype(send)> auto&& recv,
                            const Reduction& op, const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::exclusive_scan, send, recv, -1, op),
                        options);
  }

  /// Gathers `send` (count elements) of all ranks into `recv` (size × count) on all ranks.
  void all_gather(auto&& send, MatchingBuffer<decltype(send)> auto&& recv,
                  const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::all_gather, send, recv), options);
  }
  /// Non-blocking all_gather().
  Work start_all_gather(auto&& send, MatchingBuffer<decltype(send)> auto&& recv,
                        const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::all_gather, send, recv), options);
  }

  /// Combines `send` (size × count) of all ranks by `op`; rank r gets block r in `recv` (count).
  void reduce_scatter(auto&& send, ReducedBuffer<decltype(send)> auto&& recv, const Reduction& op,
                      const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::reduce_scatter, send, recv, -1, op), options);
  }
  /// Non-blocking reduce_scatter().
  Work start_reduce_scatter(auto&& send, ReducedBuffer<decltype(send)> auto&& recv,
                            const Reduction& op, const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::reduce_scatter, send, recv, -1, op),
                        options);
  }

  /// As all_gather(), on rank `root` only; on other ranks `recv` is unchanged and may be empty.
  void gather(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, int root,
              const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::gather, send, recv, root), options);
  }
  /// Non-blocking gather().
  Work start_gather(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, int root,
                    const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::gather, send, recv, root), options);
  }

  /// Rank r gets block r of rank `root`'s `send` (size × count; on other ranks it may be empty) in
  /// `recv` (count).
  void scatter(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, int root,
               const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::scatter, send, recv, root), options);
  }
  /// Non-blocking scatter().
  Work start_scatter(auto&& send, MatchingBuffer<decltype(send)> auto&& recv, int root,
                     const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::scatter, send, recv, root), options);
  }

  /// Block r of `send` goes to rank r, block r of `recv` comes from it. Both have size × count.
  void all_to_all(auto&& send, MatchingBuffer<decltype(send)> auto&& recv,
                  const CallOptions& options = {}) {
    self().run(detail::two_buffers(Operation::all_to_all, send, recv), options);
  }
  /// Non-blocking all_to_all().
  Work start_all_to_all(auto&& send, MatchingBuffer<decltype(send)> auto&& recv,
                        const CallOptions& options = {}) {
    return self().start(detail::two_buffers(Operation::all_to_all, send, recv), options);
  }

  /// Sends `buffer` (count elements) to rank `to`. Returns when it may be reused: up to 16 KiB
  /// (TUTTI_EAGER) perhaps before the receive is posted, otherwise afterwards.
  void send(Buffer auto&& buffer, int to, const CallOptions& options = {}) {
    self().run(detail::sending(buffer, to), options);
  }
  /// Non-blocking send().
  Work start_send(Buffer auto&& buffer, int to, const CallOptions& options = {}) {
    return self().start(detail::sending(buffer, to), options);
  }
  /// Receives from rank `from` a message of exactly the count and type of `buffer`. Messages of one
  /// sender and CallOptions::tag arrive in the order in which they were sent. Returns the sender's
  /// rank: `from`, or for any_rank, in host memory only, the rank whose message arrived first.
  int recv(WritableBuffer auto&& buffer, int from, const CallOptions& options = {}) {
    return self().run(detail::receiving(buffer, from), options);
  }
  /// Non-blocking recv(). Work::source() is the sender's rank. Until a receive from any_rank is
  /// complete, other receives with its tag must be from any_rank, too.
  Work start_recv(WritableBuffer auto&& buffer, int from, const CallOptions& options = {}) {
    return self().start(detail::receiving(buffer, from), options);
  }
  /// send() and recv() at once, so that a cycle of ranks can't deadlock. The counts may differ.
  void send_recv(Buffer auto&& send, int to, MatchingBuffer<decltype(send)> auto&& recv, int from,
                 const CallOptions& options = {}) {
    self().run(detail::exchanging(send, to, recv, from), options);
  }
  /// Non-blocking send_recv().
  Work start_send_recv(Buffer auto&& send, int to, MatchingBuffer<decltype(send)> auto&& recv,
                       int from, const CallOptions& options = {}) {
    return self().start(detail::exchanging(send, to, recv, from), options);
  }

 private:
  [[nodiscard]] Communicator& self() { return static_cast<Communicator&>(*this); }
};

}  // namespace tutti
