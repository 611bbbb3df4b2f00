#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include "tutti/collective.hpp"

/// How the typed calls of Communicator become a Collective or a Message.
namespace tutti::detail {

/// The type as which a T travels: what has no Type of its own travels as bytes.
template <Transferable T>
constexpr Type type_of() {
  if constexpr (Element<T>) {
    return TypeOf<T>::value;
  } else {
    return Type::u8;
  }
}
/// What `count` elements of T are of that type.
template <Transferable T>
constexpr std::size_t units(std::size_t count) {
  if constexpr (Element<T>) return count;
  return count <= SIZE_MAX / sizeof(T) ? count * sizeof(T) : SIZE_MAX;
}
/// The same for each rank's block: the caller's counts, or counts of our own.
template <Transferable T>
auto units(std::span<const std::size_t> counts) {
  if constexpr (Element<T>) {
    return counts;
  } else {
    std::vector<std::size_t> bytes;
    for (const auto count : counts) bytes.push_back(units<T>(count));
    return bytes;
  }
}

/// The same for blocks.
template <Transferable T>
struct UnitBlocks {
  explicit UnitBlocks(const Blocks& blocks)
      : counts(units<T>(blocks.counts)), displacements(units<T>(blocks.displacements)) {}

  decltype(units<T>(std::span<const std::size_t>())) counts;
  decltype(units<T>(std::span<const std::size_t>())) displacements;
};

template <class B>
std::size_t count_of(B& buffer) {
  return units<ElementOf<B&>>(std::ranges::size(buffer));
}
template <class B>
inline constexpr Memory memory_of = DeviceBuffer<B> ? Memory::device : Memory::host;

template <class R>
Collective one_buffer(Operation operation, R& buffer, int root) {
  return {.operation = operation,
          .type = type_of<ElementOf<R&>>(),
          .root = root,
          .recv = std::ranges::data(buffer),
          .recv_count = count_of(buffer),
          .memory = memory_of<R>};
}

template <class S, class R>
Collective two_buffers(Operation operation, S& send, R& recv, int root = -1,
                       const Reduction& op = Operator::sum) {
  auto call = one_buffer(operation, recv, root);
  call.op = op.op;
  call.factor = op.factor;
  if constexpr (std::same_as<std::remove_const_t<S>, InPlace>) {
    call.in_place = true;
  } else {
    call.send = std::ranges::data(send);
    call.send_count = count_of(send);
  }
  return call;
}

template <class S, class R, class T>
Collective v_form(Operation operation, S& send, R& recv, const UnitBlocks<T>& blocks,
                  int root = -1) {
  auto call = two_buffers(operation, send, recv, root);
  call.counts = blocks.counts;
  call.displacements = blocks.displacements;
  return call;
}
template <class S, class R>
Collective reduce_scatter_v(S& send, R& recv, std::span<const std::size_t> counts,
                            const Reduction& op) {
  auto call = two_buffers(Operation::reduce_scatter_v, send, recv, -1, op);
  call.counts = counts;
  return call;
}
template <class S, class R, class T>
Collective all_to_all_v(S& send, const UnitBlocks<T>& sent, R& recv,
                        const UnitBlocks<T>& received) {
  auto call = v_form(Operation::all_to_all_v, send, recv, sent);
  call.recv_counts = received.counts;
  call.recv_displacements = received.displacements;
  return call;
}

template <class S>
Message sending(S& buffer, int to) {
  return {.operation = Operation::send,
          .type = type_of<ElementOf<S&>>(),
          .send = std::ranges::data(buffer),
          .send_count = count_of(buffer),
          .to = to,
          .memory = memory_of<S>};
}
template <class R>
Message receiving(R& buffer, int from) {
  return {.operation = Operation::recv,
          .type = type_of<ElementOf<R&>>(),
          .recv = std::ranges::data(buffer),
          .recv_count = count_of(buffer),
          .from = from,
          .memory = memory_of<R>};
}
template <class S, class R>
Message exchanging(S& send, int to, R& recv, int from) {
  auto message = receiving(recv, from);
  message.operation = Operation::send_recv;
  message.send = std::ranges::data(send);
  message.send_count = count_of(send);
  message.to = to;
  return message;
}

}  // namespace tutti::detail
