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

/// The messages on control links.
namespace tutti::control {

enum class ControlMessageKind : std::uint8_t {
  evidence = 1,
  proposal,
  acknowledgement,
  commit,
  goodbye,
  calls,  ///< a rank's latest collective calls
  status_request,
  status,
};

inline constexpr int all_ranks = -1;

/// An envelope; ranks that are not its target forward it without decoding the body.
struct ControlMessage {
  ControlMessageKind kind = ControlMessageKind::evidence;
  int origin = -1;
  int target = all_ranks;
  std::uint32_t serial = 0;  ///< number of the message of its origin, from 1
  Bytes body;

  [[nodiscard]] Bytes encode() const;
  static std::optional<ControlMessage> decode(std::span<const std::byte> bytes, int size);
};

/// Maximum size of a message on a link, without its 4-byte length.
inline constexpr std::size_t max_message_bytes = std::size_t{64} << 10;

/// A rank's latest calls in one communicator.
struct CallsMessage {
  std::uint32_t communicator = 0;
  std::vector<PastCall> calls;
};
[[nodiscard]] Bytes encode_calls(std::uint32_t communicator, const std::vector<PastCall>& calls);
[[nodiscard]] std::optional<CallsMessage> decode_calls(std::span<const std::byte> bytes);

/// A rank's activity as seen from one communicator, and its unacknowledged data of all
/// communicators.
struct StatusMessage {
  std::uint32_t communicator = 0;
  Status status;
};
[[nodiscard]] Bytes encode_status(const StatusMessage& message);
[[nodiscard]] std::optional<StatusMessage> decode_status(std::span<const std::byte> bytes,
                                                         int size);

/// A rank's answer to a leader's proposal.
struct AcknowledgementMessage {
  std::uint32_t round = 0;
  std::optional<FailureReport> committed;
  std::optional<Accepted> earlier;
};
[[nodiscard]] Bytes encode_acknowledgement(const AcknowledgementMessage& message);
/// Empty if malformed, which is not an acknowledgement.
[[nodiscard]] std::optional<AcknowledgementMessage> decode_acknowledgement(
    std::span<const std::byte> bytes, int size);

void encode_signature(ByteWriter& writer, const CallSignature& call);
[[nodiscard]] std::optional<CallSignature> decode_signature(ByteReader& reader);

}  // namespace tutti::control
