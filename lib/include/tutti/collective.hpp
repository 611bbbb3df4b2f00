#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/device_span.hpp"
#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// The type of tutti::in_place.
struct InPlace {};
/// Passed instead of the send buffer if input and output of a call are one buffer.
inline constexpr InPlace in_place{};

/// The memory of a call's buffers.
enum class Memory : std::uint8_t {
  host,
  device,  ///< of this rank's GPU, Communicator::device()
};

/// Whether B is a tutti::device_span.
template <class B>
inline constexpr bool is_device_span = false;
/// Whether B is a tutti::device_span.
template <class T>
inline constexpr bool is_device_span<device_span<T>> = true;
/// A buffer in memory of this rank's device: tutti::device_span.
template <class B>
concept DeviceBuffer = is_device_span<std::remove_cvref_t<B>>;

/// A contiguous buffer in host memory: std::span, std::vector, std::array, an array, Allocation, …
template <class B>
concept HostBuffer = std::ranges::contiguous_range<B> && std::ranges::sized_range<B> &&
    std::ranges::borrowed_range<B> && Transferable<std::remove_cv_t<std::ranges::range_value_t<B>>>;

/// A buffer that a call accepts.
template <class B>
concept Buffer = HostBuffer<B> || DeviceBuffer<B>;

/// The element type of a buffer, without const.
template <class B>
using ElementOf = std::remove_const_t<std::remove_pointer_t<decltype(std::ranges::data(
    std::declval<std::remove_reference_t<B>&>()))>>;

/// A buffer that a call may write to.
template <class B>
concept WritableBuffer =
    Buffer<B> && !std::is_const_v<std::remove_pointer_t<decltype(std::ranges::data(
        std::declval<std::remove_reference_t<B>&>()))>>;

/// A receive buffer for the send buffer `S`: in the same memory, with elements of the same type.
/// Any writable buffer for tutti::in_place.
template <class R, class S>
concept MatchingBuffer = WritableBuffer<R> &&
    (std::same_as<std::remove_cvref_t<S>, InPlace> ||
     (Buffer<S> && DeviceBuffer<S> == DeviceBuffer<R> && std::same_as<ElementOf<S>, ElementOf<R>>));

/// A buffer that a reduction accepts: its elements are numbers. 8-bit floats only in device memory,
/// where NCCL does the arithmetic. No structs.
template <class B>
concept ReducibleBuffer = Buffer<B> &&
    (Reducible<ElementOf<B>> || (DeviceBuffer<B> && Element<ElementOf<B>>));

/// The receive buffer of a reduction, for the send buffer `S`.
template <class R, class S>
concept ReducedBuffer = MatchingBuffer<R, S> && ReducibleBuffer<R>;

/// A single value that a call accepts without a buffer: a number or a trivially copyable struct.
template <class T>
concept Value = Transferable<T> && !std::is_const_v<T> && !std::ranges::range<T&> &&
                !DeviceBuffer<T> && !std::same_as<T, InPlace>;

/// The blocks of a v-form's buffer, one for each rank, in rank order. What it points to must stay
/// until the operation has returned; of a non-blocking one until its start has.
struct Blocks {
  /// Block r has `lengths`[r] elements. The blocks lie without gaps. Implicit, so that a call takes
  /// the counts alone.
  template <class Lengths>
  requires std::convertible_to<const Lengths&, std::span<const std::size_t>>
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  Blocks(const Lengths& lengths) : counts(lengths) {}
  /// Block r begins at element `begins`[r], as with MPI's displacements. In any order, with or
  /// without gaps; blocks that are received must not overlap. The buffer may be longer.
  Blocks(std::span<const std::size_t> lengths, std::span<const std::size_t> begins)
      : counts(lengths), displacements(begins) {}

  /// On ranks that need no counts.
  Blocks() = default;

  std::span<const std::size_t> counts;         ///< elements of each block
  std::span<const std::size_t> displacements;  ///< first element of each block; empty: no gaps
};

/// A collective call as a value, for callers that know operation and type at run time only.
/// docs/semantics.md defines the buffers of each operation. Counts are in elements of `type`. Leave
/// members that an operation does not use at their defaults.
struct Collective {
  Operation operation = Operation::none;  ///< any collective of the user's
  Type type = Type::u8;                   ///< of an element
  Operator op = Operator::sum;            ///< of reductions
  double factor = 1;                      ///< premultiplied_sum: of this rank's contribution
  int root = -1;                          ///< of rooted operations
  const void* send = nullptr;             ///< input; unused in broadcast and fan_out
  std::size_t send_count = 0;             ///< elements in `send`
  void* recv = nullptr;                   ///< output
  std::size_t recv_count = 0;             ///< elements in `recv`
  bool in_place = false;                  ///< `recv` holds the input, too; `send` is unused
  /// v-forms: elements of each rank's block (all_to_all_v: elements sent to each rank). gather_v
  /// and scatter_v: on the root only. Need not outlive the call to run() or start().
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> recv_counts = {};  ///< all_to_all_v: elements from each rank
  /// v-forms but reduce_scatter_v: the first element of each rank's block in the buffer of all
  /// blocks (all_to_all_v: in `send`), which may be longer than the blocks. Empty: the blocks are
  /// in rank order, without gaps. Each rank has its own.
  std::span<const std::size_t> displacements = {};
  std::span<const std::size_t> recv_displacements = {};  ///< all_to_all_v: the same in `recv`
  Memory memory = Memory::host;                          ///< where the buffers are
};

/// Message::from of a recv: the rank whose message arrives first.
inline constexpr int any_rank = -2;

/// A send, a recv, or both at once, as a value. Counts are elements of `type`.
struct Message {
  Operation operation = Operation::none;  ///< send, recv or send_recv
  Type type = Type::u8;                   ///< of an element
  const void* send = nullptr;             ///< data to send
  std::size_t send_count = 0;             ///< elements in `send`
  int to = -1;                            ///< the receiver
  void* recv = nullptr;                   ///< where received data goes
  std::size_t recv_count = 0;             ///< elements in `recv`
  int from = -1;                          ///< the sender; of a recv in host memory also any_rank
  Memory memory = Memory::host;           ///< where the buffers are
};

}  // namespace tutti
