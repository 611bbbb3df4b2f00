#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "control/call_history.hpp"
#include "control/consensus.hpp"
#include "control/failure_report.hpp"
#include "control/status.hpp"

/// What travels on control links.
namespace tutti::control {

enum class MessageKind : std::uint8_t {
  evidence = 1,
  proposal,
  acknowledgement,
  commit,
  goodbye,
  calls,  ///< a rank's latest collective calls
  status_request,
  status,
};

inline constexpr int everybody = -1;

/// An envelope: forwarded unread by ranks that it is not for.
struct Message {
  MessageKind kind = MessageKind::evidence;
  int origin = -1;
  int target = everybody;
  std::uint32_t serial = 0;  ///< counts the messages of an origin, from 1
  Bytes body;

  [[nodiscard]] Bytes encode() const;
  static std::optional<Message> decode(std::span<const std::byte> bytes, int size);
};

/// A message on a link is this many bytes at most, without its 4-byte length.
inline constexpr std::size_t max_message_bytes = std::size_t{64} << 10;

/// A rank's latest calls in one communicator.
struct CallsMessage {
  std::uint32_t communicator = 0;
  std::vector<PastCall> calls;
};
[[nodiscard]] Bytes encode_calls(std::uint32_t communicator, const std::vector<PastCall>& calls);
[[nodiscard]] std::optional<CallsMessage> decode_calls(std::span<const std::byte> bytes);

/// What a rank is doing, as seen from one communicator, and what it has sent in vain in any.
struct StatusMessage {
  std::uint32_t communicator = 0;
  Status status;
};
[[nodiscard]] Bytes encode_status(const StatusMessage& told);
[[nodiscard]] std::optional<StatusMessage> decode_status(std::span<const std::byte> bytes,
                                                         int size);

/// What a rank answers a leader that proposes a report.
struct AcknowledgementMessage {
  std::uint32_t round = 0;
  std::optional<FailureReport> committed;
  std::optional<Accepted> earlier;
};
[[nodiscard]] Bytes encode_acknowledgement(const AcknowledgementMessage& told);
/// Nothing where it can't be read: that is no agreement.
[[nodiscard]] std::optional<AcknowledgementMessage> decode_acknowledgement(
    std::span<const std::byte> bytes, int size);

void encode_signature(ByteWriter& writer, const CallSignature& call);
[[nodiscard]] std::optional<CallSignature> decode_signature(ByteReader& reader);

}  // namespace tutti::control
