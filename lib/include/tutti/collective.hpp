#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>

#include "tutti/device_span.hpp"
#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Tag for calls whose input and output are one buffer.
struct InPlace {};
inline constexpr InPlace in_place{};

/// Memory of the host as one piece: std::span, std::vector, std::array, …
template <class B>
concept HostBuffer = std::ranges::contiguous_range<B> && std::ranges::sized_range<B> &&
    std::ranges::borrowed_range<B> &&
    Element<std::remove_const_t<std::remove_reference_t<std::ranges::range_reference_t<B>>>>;

template <class B>
inline constexpr bool is_device_span = false;
template <class T>
inline constexpr bool is_device_span<device_span<T>> = true;
template <class B>
concept DeviceBuffer = is_device_span<std::remove_cvref_t<B>>;

template <class B>
concept Buffer = HostBuffer<B> || DeviceBuffer<B>;

/// The element of a buffer, without const.
template <class B>
using ElementOf = std::remove_const_t<std::remove_pointer_t<decltype(std::declval<B>().data())>>;

/// A buffer that a call may write to.
template <class B>
concept WritableBuffer =
    Buffer<B> && !std::is_const_v<std::remove_pointer_t<decltype(std::declval<B>().data())>>;

/// Two buffers of one kind of memory and one element type.
template <class S, class R>
concept BufferPair = Buffer<S> && WritableBuffer<R> &&
    (HostBuffer<S> == HostBuffer<R>)&&std::same_as<ElementOf<S>, ElementOf<R>>;

/// The same, where tutti::in_place may stand for the first.
template <class S, class R>
concept CallBuffers =
    (std::same_as<std::remove_cvref_t<S>, InPlace> && WritableBuffer<R>) || BufferPair<S, R>;

/// What a reduction may work on: 8-bit floats only where NCCL does the arithmetic.
template <class B>
concept ReducibleBuffer = Buffer<B> &&(DeviceBuffer<B> || Reducible<ElementOf<B>>);

/// A collective call as a value, for callers that hold operation and type at run time, and what the
/// typed calls of Communicator come to. docs/semantics.md says for each operation what the buffers
/// hold. Counts are elements of `type`; what an operation does not use stays empty.
struct Collective {
  Operation operation = Operation::none;
  Type type = Type::u8;
  Operator op = Operator::sum;
  int root = -1;
  const void* send = nullptr;
  std::size_t send_count = 0;
  void* recv = nullptr;
  std::size_t recv_count = 0;
  /// Only `recv` counts: it holds the input, too.
  bool in_place = false;
  /// v-forms: elements of each rank's block (of all_to_all_v: of what goes to each rank). Of
  /// gather_v and scatter_v at the root only.
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> recv_counts = {};  ///< all_to_all_v: of what comes from each rank
  /// Set: the buffers are in device memory, and the call is queued there.
  std::optional<Stream> stream = std::nullopt;
};

/// A send, a recv, or both at once, as a value.
struct Message {
  Operation operation = Operation::none;  ///< send, recv or send_recv
  Type type = Type::u8;
  const void* send = nullptr;
  std::size_t send_count = 0;
  int to = -1;
  void* recv = nullptr;
  std::size_t recv_count = 0;
  int from = -1;
  std::optional<Stream> stream = std::nullopt;
};

}  // namespace tutti
