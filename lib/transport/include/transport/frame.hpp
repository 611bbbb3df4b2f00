#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/request.hpp"

namespace tutti::transport {

enum class FrameKind : std::uint8_t {
  /// Sender → receiver: `payload` bytes of the stream from `position`, within clear_to_send.
  data = 1,
  /// The same without clear_to_send; charged to the link's credit until consumed.
  eager,
  /// Sender → receiver: the stream waits for clear_to_send. Without bytes to send, only names the
  /// call.
  request_to_send,
  /// Receiver → sender: the stream may be sent up to `position`.
  clear_to_send,
  /// Receiver → sender: `position` more eager bytes may be sent.
  credit,
  /// Sender → receiver, inside a host: as request_to_send, and the receiver may read the next
  /// `payload` bytes of the stream at address `position` of the sender instead.
  offer,
  /// Receiver → sender: the bytes of the offer up to `position` of the stream have been read, the
  /// others must be sent. `payload` 1: offer fewer messages of this size.
  taken,
};

inline constexpr std::size_t frame_header_bytes = 56;
/// Longer payloads are split, so that streams share a link fairly.
inline constexpr std::size_t max_payload_bytes = std::size_t{256} << 10;
inline constexpr std::size_t max_offered_bytes = std::size_t{1} << 30;
/// Limit of open streams. Streams without a request accumulate at both ends, by early clear-to-send
/// frames and by the calls of a peer that is ahead; a peer that exceeds the limit is faulty.
inline constexpr std::size_t max_streams = std::size_t{1} << 16;

struct Frame {
  FrameKind kind = FrameKind::data;
  std::uint32_t payload = 0;
  std::uint64_t position = 0;
  CallContext call;
};

using FrameHeader = std::array<std::byte, frame_header_bytes>;

[[nodiscard]] FrameHeader encode(const Frame& frame);
/// Returns nothing for a malformed frame. The payload of a data frame is at most max_payload_bytes.
[[nodiscard]] std::optional<Frame> decode(std::span<const std::byte, frame_header_bytes> header);

}  // namespace tutti::transport
