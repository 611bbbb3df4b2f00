#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/request.hpp"

namespace tutti::transport {

enum class FrameKind : std::uint8_t {
  data = 1,  ///< sender → receiver: `payload` bytes of the stream from `position`, within what was
             ///< cleared
  eager,  ///< the same, ahead of a clear_to_send: charged to the link's credit until it is consumed
  want,   ///< sender → receiver: the stream waits for a clear_to_send; or, with nothing to send,
          ///< only names its call
  clear_to_send,  ///< receiver → sender: the stream may be sent up to `position`
  credit,         ///< receiver → sender: `position` more bytes may be sent ahead
};

inline constexpr std::size_t frame_header_bytes = 56;
/// A longer piece is cut, so that streams share a link fairly.
inline constexpr std::size_t max_payload_bytes = std::size_t{256} << 10;
/// Streams without a request pile up at both ends: clears come before their calls, and so do calls
/// of a peer that is ahead. More of them is no honest peer.
inline constexpr std::size_t max_streams = std::size_t{1} << 16;

struct Frame {
  FrameKind kind = FrameKind::data;
  std::uint32_t payload = 0;
  std::uint64_t position = 0;
  CallContext call;
};

using FrameHeader = std::array<std::byte, frame_header_bytes>;

[[nodiscard]] FrameHeader encode(const Frame& frame);
/// Empty where the bytes are no frame; a payload is never longer than max_payload_bytes, and only
/// data has one.
[[nodiscard]] std::optional<Frame> decode(std::span<const std::byte, frame_header_bytes> header);

}  // namespace tutti::transport
