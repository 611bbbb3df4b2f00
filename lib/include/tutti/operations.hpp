#pragma once

#include <concepts>
#include <span>
#include <utility>

#include "tutti/collective.hpp"
#include "tutti/options.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// The typed calls of Communicator: each checks its types at compile time and becomes a Collective
/// or Message. docs/semantics.md says what the buffers hold. Errors are those of run().
///
/// Where a call takes a send and a receive buffer, tutti::in_place may stand for the first: the
/// second then holds the input, too. A call on device memory takes the stream that it is queued on.
/// Each has a form of the same name with _async, which returns at once.
template <class Communicator>
class Operations {
 public:
  /// Rank `root`'s buffer to every other rank by the fastest way. Same count on all ranks.
  template <HostBuffer B>
  requires WritableBuffer<B>
  void broadcast(B&& buffer, int root, const Call& call = {}) {
    self().run(whole(Operation::broadcast, buffer, root), call);
  }
  template <HostBuffer B>
  requires WritableBuffer<B> Work broadcast_async(B&& buffer, int root, const Call& call = {}) {
    return self().start(whole(Operation::broadcast, buffer, root), call);
  }
  template <DeviceBuffer B>
  requires WritableBuffer<B>
  void broadcast(B&& buffer, int root, Stream stream, const Call& call = {}) {
    self().run(on(stream, whole(Operation::broadcast, buffer, root)), call);
  }
  template <DeviceBuffer B>
  requires WritableBuffer<B> Work broadcast_async(B&& buffer, int root, Stream stream,
                                                  const Call& call = {}) {
    return self().start(on(stream, whole(Operation::broadcast, buffer, root)), call);
  }

  /// Rank `root`'s buffer to every other rank, one point-to-point send each. Same count on all
  /// ranks.
  template <HostBuffer B>
  requires WritableBuffer<B>
  void fan_out(B&& buffer, int root, const Call& call = {}) {
    self().run(whole(Operation::fan_out, buffer, root), call);
  }
  template <HostBuffer B>
  requires WritableBuffer<B> Work fan_out_async(B&& buffer, int root, const Call& call = {}) {
    return self().start(whole(Operation::fan_out, buffer, root), call);
  }
  template <DeviceBuffer B>
  requires WritableBuffer<B>
  void fan_out(B&& buffer, int root, Stream stream, const Call& call = {}) {
    self().run(on(stream, whole(Operation::fan_out, buffer, root)), call);
  }
  template <DeviceBuffer B>
  requires WritableBuffer<B> Work fan_out_async(B&& buffer, int root, Stream stream,
                                                const Call& call = {}) {
    return self().start(on(stream, whole(Operation::fan_out, buffer, root)), call);
  }

  /// recv[i] = op over all ranks of send[i]; the same bits on all ranks. The buffers have the same
  /// count and do not overlap. Average of integers truncates toward zero.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void all_reduce(S&& send, R&& recv, Operator op, const Call& call = {}) {
    self().run(pair(Operation::all_reduce, send, recv, op, -1), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work all_reduce_async(S&& send, R&& recv,
                                                                         Operator op,
                                                                         const Call& call = {}) {
    return self().start(pair(Operation::all_reduce, send, recv, op, -1), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void all_reduce(S&& send, R&& recv, Operator op, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::all_reduce, send, recv, op, -1)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work all_reduce_async(S&& send, R&& recv,
                                                                         Operator op, Stream stream,
                                                                         const Call& call = {}) {
    return self().start(on(stream, pair(Operation::all_reduce, send, recv, op, -1)), call);
  }

  /// The same result on rank `root` only; elsewhere `recv` may be empty and is left alone. In
  /// place, only the root's buffer changes.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void reduce(S&& send, R&& recv, Operator op, int root, const Call& call = {}) {
    self().run(pair(Operation::reduce, send, recv, op, root), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work reduce_async(S&& send, R&& recv,
                                                                     Operator op, int root,
                                                                     const Call& call = {}) {
    return self().start(pair(Operation::reduce, send, recv, op, root), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void reduce(S&& send, R&& recv, Operator op, int root, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::reduce, send, recv, op, root)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work reduce_async(S&& send, R&& recv,
                                                                     Operator op, int root,
                                                                     Stream stream,
                                                                     const Call& call = {}) {
    return self().start(on(stream, pair(Operation::reduce, send, recv, op, root)), call);
  }

  /// recv = the send buffers of all ranks in their order: recv has size() × send's count. In place,
  /// the own block lies at its place in recv.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void all_gather(S&& send, R&& recv, const Call& call = {}) {
    self().run(pair(Operation::all_gather, send, recv, Operator::sum, -1), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work all_gather_async(S&& send, R&& recv, const Call& call = {}) {
    return self().start(pair(Operation::all_gather, send, recv, Operator::sum, -1), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R>
  void all_gather(S&& send, R&& recv, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::all_gather, send, recv, Operator::sum, -1)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> Work all_gather_async(S&& send, R&& recv, Stream stream,
                                                   const Call& call = {}) {
    return self().start(on(stream, pair(Operation::all_gather, send, recv, Operator::sum, -1)),
                        call);
  }

  /// recv = block rank() of the reduction of all ranks' send: send has size() × recv's count. In
  /// place, the buffer has all blocks, and the own one becomes the result.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void reduce_scatter(S&& send, R&& recv, Operator op, const Call& call = {}) {
    self().run(pair(Operation::reduce_scatter, send, recv, op, -1), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work
  reduce_scatter_async(S&& send, R&& recv, Operator op, const Call& call = {}) {
    return self().start(pair(Operation::reduce_scatter, send, recv, op, -1), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void reduce_scatter(S&& send, R&& recv, Operator op, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::reduce_scatter, send, recv, op, -1)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work
  reduce_scatter_async(S&& send, R&& recv, Operator op, Stream stream, const Call& call = {}) {
    return self().start(on(stream, pair(Operation::reduce_scatter, send, recv, op, -1)), call);
  }

  /// all_gather on rank `root` only; elsewhere `recv` may be empty and is left alone. In place only
  /// at the root.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void gather(S&& send, R&& recv, int root, const Call& call = {}) {
    self().run(pair(Operation::gather, send, recv, Operator::sum, root), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work gather_async(S&& send, R&& recv, int root,
                                               const Call& call = {}) {
    return self().start(pair(Operation::gather, send, recv, Operator::sum, root), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R>
  void gather(S&& send, R&& recv, int root, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::gather, send, recv, Operator::sum, root)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> Work gather_async(S&& send, R&& recv, int root, Stream stream,
                                               const Call& call = {}) {
    return self().start(on(stream, pair(Operation::gather, send, recv, Operator::sum, root)), call);
  }

  /// recv = block rank() of rank `root`'s send, which has size() × recv's count; elsewhere `send`
  /// may be empty. In place only at the root, whose own block stays where it is.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void scatter(S&& send, R&& recv, int root, const Call& call = {}) {
    self().run(pair(Operation::scatter, send, recv, Operator::sum, root), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work scatter_async(S&& send, R&& recv, int root,
                                                const Call& call = {}) {
    return self().start(pair(Operation::scatter, send, recv, Operator::sum, root), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R>
  void scatter(S&& send, R&& recv, int root, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::scatter, send, recv, Operator::sum, root)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> Work scatter_async(S&& send, R&& recv, int root, Stream stream,
                                                const Call& call = {}) {
    return self().start(on(stream, pair(Operation::scatter, send, recv, Operator::sum, root)),
                        call);
  }

  /// Block r of send goes to rank r, block r of recv comes from it: both have size() equal blocks.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void all_to_all(S&& send, R&& recv, const Call& call = {}) {
    self().run(pair(Operation::all_to_all, send, recv, Operator::sum, -1), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work all_to_all_async(S&& send, R&& recv, const Call& call = {}) {
    return self().start(pair(Operation::all_to_all, send, recv, Operator::sum, -1), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R>
  void all_to_all(S&& send, R&& recv, Stream stream, const Call& call = {}) {
    self().run(on(stream, pair(Operation::all_to_all, send, recv, Operator::sum, -1)), call);
  }
  template <class S, DeviceBuffer R>
  requires CallBuffers<S, R> Work all_to_all_async(S&& send, R&& recv, Stream stream,
                                                   const Call& call = {}) {
    return self().start(on(stream, pair(Operation::all_to_all, send, recv, Operator::sum, -1)),
                        call);
  }

  // With blocks of different lengths, in host memory: `counts` has the elements of each rank's
  // block, which lie in the order of ranks without gaps. All ranks pass the same counts; of
  // gather_v and scatter_v only the root needs them.
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void all_gather_v(S&& send, R&& recv, std::span<const std::size_t> counts,
                    const Call& call = {}) {
    self().run(counted(pair(Operation::all_gather_v, send, recv, Operator::sum, -1), counts), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work all_gather_v_async(S&& send, R&& recv,
                                                     std::span<const std::size_t> counts,
                                                     const Call& call = {}) {
    return self().start(
        counted(pair(Operation::all_gather_v, send, recv, Operator::sum, -1), counts), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void gather_v(S&& send, R&& recv, std::span<const std::size_t> counts, int root,
                const Call& call = {}) {
    self().run(counted(pair(Operation::gather_v, send, recv, Operator::sum, root), counts), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work gather_v_async(S&& send, R&& recv,
                                                 std::span<const std::size_t> counts, int root,
                                                 const Call& call = {}) {
    return self().start(counted(pair(Operation::gather_v, send, recv, Operator::sum, root), counts),
                        call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R>
  void scatter_v(S&& send, R&& recv, std::span<const std::size_t> counts, int root,
                 const Call& call = {}) {
    self().run(counted(pair(Operation::scatter_v, send, recv, Operator::sum, root), counts), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> Work scatter_v_async(S&& send, R&& recv,
                                                  std::span<const std::size_t> counts, int root,
                                                  const Call& call = {}) {
    return self().start(
        counted(pair(Operation::scatter_v, send, recv, Operator::sum, root), counts), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R>
  void reduce_scatter_v(S&& send, R&& recv, std::span<const std::size_t> counts, Operator op,
                        const Call& call = {}) {
    self().run(counted(pair(Operation::reduce_scatter_v, send, recv, op, -1), counts), call);
  }
  template <class S, HostBuffer R>
  requires CallBuffers<S, R> && ReducibleBuffer<R> Work reduce_scatter_v_async(
      S&& send, R&& recv, std::span<const std::size_t> counts, Operator op, const Call& call = {}) {
    return self().start(counted(pair(Operation::reduce_scatter_v, send, recv, op, -1), counts),
                        call);
  }
  /// `send_counts` has what goes to each rank, `recv_counts` what comes from it.
  template <HostBuffer S, HostBuffer R>
  requires BufferPair<S, R>
  void all_to_all_v(S&& send, std::span<const std::size_t> send_counts, R&& recv,
                    std::span<const std::size_t> recv_counts, const Call& call = {}) {
    self().run(counted(pair(Operation::all_to_all_v, send, recv, Operator::sum, -1), send_counts,
                       recv_counts),
               call);
  }
  template <HostBuffer S, HostBuffer R>
  requires BufferPair<S, R> Work all_to_all_v_async(S&& send,
                                                    std::span<const std::size_t> send_counts,
                                                    R&& recv,
                                                    std::span<const std::size_t> recv_counts,
                                                    const Call& call = {}) {
    return self().start(counted(pair(Operation::all_to_all_v, send, recv, Operator::sum, -1),
                                send_counts, recv_counts),
                        call);
  }

  /// Returns when `buffer` may be reused. Small messages are buffered on the way; large ones wait
  /// for the receiver.
  template <HostBuffer B>
  void send(B&& buffer, int to, const Call& call = {}) {
    self().run(sending(buffer, to), call);
  }
  template <HostBuffer B>
  Work send_async(B&& buffer, int to, const Call& call = {}) {
    return self().start(sending(buffer, to), call);
  }
  /// Receives a message of exactly this count and type; messages of one sender and tag come in the
  /// order sent.
  template <HostBuffer B>
  requires WritableBuffer<B>
  void recv(B&& buffer, int from, const Call& call = {}) {
    self().run(receiving(buffer, from), call);
  }
  template <HostBuffer B>
  requires WritableBuffer<B> Work recv_async(B&& buffer, int from, const Call& call = {}) {
    return self().start(receiving(buffer, from), call);
  }
  /// Both at once, so that a cycle of ranks can't wait for itself. The buffers do not overlap.
  template <HostBuffer S, HostBuffer R>
  requires BufferPair<S, R>
  void send_recv(S&& send, int to, R&& recv, int from, const Call& call = {}) {
    self().run(exchanging(send, to, recv, from), call);
  }
  template <HostBuffer S, HostBuffer R>
  requires BufferPair<S, R> Work send_recv_async(S&& send, int to, R&& recv, int from,
                                                 const Call& call = {}) {
    return self().start(exchanging(send, to, recv, from), call);
  }
  template <DeviceBuffer B>
  void send(B&& buffer, int to, Stream stream, const Call& call = {}) {
    self().run(on(stream, sending(buffer, to)), call);
  }
  template <DeviceBuffer B>
  Work send_async(B&& buffer, int to, Stream stream, const Call& call = {}) {
    return self().start(on(stream, sending(buffer, to)), call);
  }
  template <DeviceBuffer B>
  requires WritableBuffer<B>
  void recv(B&& buffer, int from, Stream stream, const Call& call = {}) {
    self().run(on(stream, receiving(buffer, from)), call);
  }
  template <DeviceBuffer B>
  requires WritableBuffer<B> Work recv_async(B&& buffer, int from, Stream stream,
                                             const Call& call = {}) {
    return self().start(on(stream, receiving(buffer, from)), call);
  }
  template <DeviceBuffer S, DeviceBuffer R>
  requires BufferPair<S, R>
  void send_recv(S&& send, int to, R&& recv, int from, Stream stream, const Call& call = {}) {
    self().run(on(stream, exchanging(send, to, recv, from)), call);
  }
  template <DeviceBuffer S, DeviceBuffer R>
  requires BufferPair<S, R> Work send_recv_async(S&& send, int to, R&& recv, int from,
                                                 Stream stream, const Call& call = {}) {
    return self().start(on(stream, exchanging(send, to, recv, from)), call);
  }

 private:
  [[nodiscard]] Communicator& self() { return static_cast<Communicator&>(*this); }

  template <class C>
  static C on(Stream stream, C call) {
    call.stream = stream;
    return call;
  }

  template <class B>
  static Collective whole(Operation operation, B& buffer, int root) {
    return {.operation = operation,
            .type = TypeOf<ElementOf<B&>>::value,
            .root = root,
            .recv = buffer.data(),
            .recv_count = buffer.size()};
  }

  template <class S, class R>
  static Collective pair(Operation operation, S& send, R& recv, Operator op, int root) {
    Collective call{.operation = operation,
                    .type = TypeOf<ElementOf<R&>>::value,
                    .op = op,
                    .root = root,
                    .recv = recv.data(),
                    .recv_count = recv.size()};
    if constexpr (std::same_as<std::remove_cvref_t<S>, InPlace>) {
      call.in_place = true;
    } else {
      call.send = send.data();
      call.send_count = send.size();
    }
    return call;
  }

  static Collective counted(Collective call, std::span<const std::size_t> counts,
                            std::span<const std::size_t> recv_counts = {}) {
    call.counts = counts;
    call.recv_counts = recv_counts;
    return call;
  }

  template <class B>
  static Message sending(const B& buffer, int to) {
    return {.operation = Operation::send,
            .type = TypeOf<ElementOf<const B&>>::value,
            .send = buffer.data(),
            .send_count = buffer.size(),
            .to = to};
  }
  template <class B>
  static Message receiving(B& buffer, int from) {
    return {.operation = Operation::recv,
            .type = TypeOf<ElementOf<B&>>::value,
            .recv = buffer.data(),
            .recv_count = buffer.size(),
            .from = from};
  }
  template <class S, class R>
  static Message exchanging(const S& send, int to, R& recv, int from) {
    return {.operation = Operation::send_recv,
            .type = TypeOf<ElementOf<R&>>::value,
            .send = send.data(),
            .send_count = send.size(),
            .to = to,
            .recv = recv.data(),
            .recv_count = recv.size(),
            .from = from};
  }
};

}  // namespace tutti
