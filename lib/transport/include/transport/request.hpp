#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/call_signature.hpp"

/// Requests of the engine to the links, and the names of calls in both.
namespace tutti::transport {

enum class StreamKind : std::uint8_t {
  collective,  ///< all bytes from one rank to another within one collective call
  message,     ///< one send
};

/// Identifies one stream of bytes between two ranks; both sides count alike.
struct StreamKey {
  std::uint32_t communicator = 0;
  StreamKind kind = StreamKind::collective;
  std::uint32_t tag = 0;
  std::uint64_t sequence = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison's own 0 for a pointer
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

/// The call that a stream belongs to, as its rank sees it. Every frame carries it, so that the two
/// ends can be compared.
struct CallContext {
  StreamKey key;
  CallSignature signature;
  std::uint64_t fingerprint = 0;  ///< of all collective calls before this one

  friend bool operator==(const CallContext&, const CallContext&) = default;
};

/// Of any type.
inline constexpr std::size_t max_element_bytes = 16;

/// to[i] = a[i] ⊕ b[i]; `to` may be `a` or `b`.
using ReduceFunction = void (*)(std::byte* to, const std::byte* a, const std::byte* b,
                                std::size_t elements);

/// A request and its memory must stay valid until it is done or the links are closed.
struct SendRequest {
  int peer = -1;
  const CallContext* call = nullptr;
  std::span<const std::byte> from;
  std::size_t sent = 0;         ///< bytes copied to the kernel or a ring
  bool names_call = false;      ///< a message without bytes is sent when a frame with its call is
  SendRequest* next = nullptr;  ///< in a RequestQueue

  [[nodiscard]] bool done() const { return sent == from.size() && !names_call; }
};

struct RecvRequest {
  int peer = -1;
  const CallContext* call = nullptr;
  std::span<std::byte> to;
  // If `reduce` is set: to = combine_with ⊕ received, in elements of this size.
  const std::byte* combine_with = nullptr;
  ReduceFunction reduce = nullptr;
  std::size_t element_bytes = 1;
  std::size_t received = 0;
  // A message without bytes is received when a frame has named the sender's call.
  bool awaits_call = false;

  RecvRequest* next = nullptr;  ///< in a RequestQueue

  // Start of an element that is split between frames.
  std::array<std::byte, max_element_bytes> carry{};
  std::size_t carried = 0;

  [[nodiscard]] bool done() const { return received == to.size() && !awaits_call; }
};

}  // namespace tutti::transport
