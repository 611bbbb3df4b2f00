#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/call_signature.hpp"

/// What the engine asks of the links, and how both name a call.
namespace tutti::transport {

enum class StreamKind : std::uint8_t {
  collective,  ///< all bytes from one rank to another within one collective call
  message,     ///< one send
};

/// Names one stream of bytes between two ranks; both sides count alike.
struct StreamKey {
  std::uint32_t communicator = 0;
  StreamKind kind = StreamKind::collective;
  std::uint32_t tag = 0;
  std::uint64_t sequence = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison's own 0 for a pointer
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

/// The call that a stream belongs to, as its rank sees it; travels in each frame, so that the two
/// ends can be compared.
struct CallContext {
  StreamKey key;
  CallSignature signature;
  std::uint64_t fingerprint = 0;  ///< of all collective calls before this one

  friend bool operator==(const CallContext&, const CallContext&) = default;
};

/// to[i] = a[i] ⊕ b[i]; `to` may be `a` or `b`.
using ReduceFunction = void (*)(std::byte* to, const std::byte* a, const std::byte* b,
                                std::size_t elements);

/// Lives, with its memory, until it is done or the links are closed.
struct SendRequest {
  int peer = -1;
  const CallContext* call = nullptr;
  std::span<const std::byte> from;
  std::size_t taken = 0;        ///< bytes that need no more looking after
  bool names_call = false;      ///< an empty message has gone when a frame with its call has
  SendRequest* next = nullptr;  ///< in a RequestQueue

  [[nodiscard]] bool done() const { return taken == from.size() && !names_call; }
};

struct RecvRequest {
  int peer = -1;
  const CallContext* call = nullptr;
  std::span<std::byte> to;
  // Where `reduce` is set: to = combine_with ⊕ what comes, in elements of this size.
  const std::byte* combine_with = nullptr;
  ReduceFunction reduce = nullptr;
  std::size_t element_bytes = 1;
  std::size_t received = 0;
  // An empty message is there when a frame has named the sender's call.
  bool awaits_call = false;

  RecvRequest* next = nullptr;  ///< in a RequestQueue

  // A frame may end within an element; its start waits here for the rest.
  std::array<std::byte, 8> carry{};
  std::size_t carried = 0;

  [[nodiscard]] bool done() const { return received == to.size() && !awaits_call; }
};

}  // namespace tutti::transport
