#include "control/message.hpp"

#include <algorithm>

namespace tutti::control {
namespace {

constexpr std::uint32_t encoded_all_ranks = UINT32_MAX;
constexpr std::uint16_t max_calls = CallHistory::kept;

}  // namespace

Bytes ControlMessage::encode() const {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(kind))
      .put(static_cast<std::uint32_t>(origin))
      .put(target == all_ranks ? encoded_all_ranks : static_cast<std::uint32_t>(target))
      .put(serial)
      .put(std::span(body));
  return std::move(writer).bytes();
}

std::optional<ControlMessage> ControlMessage::decode(std::span<const std::byte> bytes, int size) {
  ByteReader reader(bytes);
  ControlMessage message;
  const auto kind = reader.get<std::uint8_t>();
  const auto origin = reader.get<std::uint32_t>();
  const auto target = reader.get<std::uint32_t>();
  message.serial = reader.get<std::uint32_t>();
  const auto ranks = static_cast<std::uint32_t>(size);
  if (!reader.ok() || kind < static_cast<std::uint8_t>(ControlMessageKind::evidence) ||
      kind > static_cast<std::uint8_t>(ControlMessageKind::status) || origin >= ranks ||
      (target >= ranks && target != encoded_all_ranks)) {
    return std::nullopt;
  }
  message.kind = static_cast<ControlMessageKind>(kind);
  message.origin = static_cast<int>(origin);
  message.target = target == encoded_all_ranks ? all_ranks : static_cast<int>(target);
  const auto body = bytes.last(reader.left());
  message.body.assign(body.begin(), body.end());
  return message;
}

void encode_signature(ByteWriter& writer, const CallSignature& call) {
  writer.put(static_cast<std::uint8_t>(call.operation))
      .put(static_cast<std::uint8_t>(call.type))
      .put(static_cast<std::uint8_t>(call.op))
      .put(call.algorithm)
      .put(static_cast<std::uint32_t>(call.root))
      .put(call.count);
}

std::optional<CallSignature> decode_signature(ByteReader& reader) {
  CallSignature call;
  const auto operation = reader.get<std::uint8_t>();
  call.type = static_cast<Type>(reader.get<std::uint8_t>());
  call.op = static_cast<Operator>(reader.get<std::uint8_t>());
  call.algorithm = reader.get<std::uint8_t>();
  call.root = static_cast<std::int32_t>(reader.get<std::uint32_t>());
  call.count = reader.get<std::uint64_t>();
  if (!reader.ok() || operation >= operation_count) return std::nullopt;
  call.operation = static_cast<Operation>(operation);
  return call;
}

Bytes encode_acknowledgement(const AcknowledgementMessage& message) {
  ByteWriter writer;
  writer.put(message.round)
      .put(static_cast<std::uint8_t>(message.committed.has_value()))
      .put(static_cast<std::uint8_t>(message.earlier.has_value()));
  if (message.committed) message.committed->encode(writer);
  if (message.earlier) {
    writer.put(static_cast<std::uint32_t>(message.earlier->leader)).put(message.earlier->round);
    message.earlier->report.encode(writer);
  }
  return std::move(writer).bytes();
}

std::optional<AcknowledgementMessage> decode_acknowledgement(std::span<const std::byte> bytes,
                                                             int size) {
  ByteReader reader(bytes);
  AcknowledgementMessage message;
  message.round = reader.get<std::uint32_t>();
  const bool has_committed = reader.get<std::uint8_t>() != 0;
  const bool has_earlier = reader.get<std::uint8_t>() != 0;
  if (has_committed && !(message.committed = FailureReport::decode(reader, size)))
    return std::nullopt;
  if (has_earlier) {
    const auto leader = reader.get<std::uint32_t>();
    const auto round = reader.get<std::uint32_t>();
    auto report = FailureReport::decode(reader, size);
    if (!report || leader >= static_cast<std::uint32_t>(size)) return std::nullopt;
    message.earlier = Accepted{static_cast<int>(leader), round, std::move(*report)};
  }
  if (!reader.ok()) return std::nullopt;
  return message;
}

Bytes encode_calls(std::uint32_t communicator, const std::vector<PastCall>& calls) {
  ByteWriter writer;
  writer.put(communicator).put(static_cast<std::uint16_t>(calls.size()));
  for (const auto& past : calls) {
    writer.put(past.sequence).put(past.fingerprint);
    encode_signature(writer, past.call);
  }
  return std::move(writer).bytes();
}

std::optional<CallsMessage> decode_calls(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  CallsMessage message;
  message.communicator = reader.get<std::uint32_t>();
  const auto count = reader.get<std::uint16_t>();
  if (!reader.ok() || count > max_calls) return std::nullopt;
  for (int i = 0; i < count; ++i) {
    PastCall past;
    past.sequence = reader.get<std::uint64_t>();
    past.fingerprint = reader.get<std::uint64_t>();
    const auto call = decode_signature(reader);
    if (!call) return std::nullopt;
    past.call = *call;
    message.calls.push_back(past);
  }
  return message;
}

Bytes encode_status(const StatusMessage& message) {
  const auto& [activity, unacknowledged] = message.status;
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - activity.since);
  ByteWriter writer;
  writer.put(message.communicator)
      .put(static_cast<std::uint8_t>(activity.in_call))
      .put(static_cast<std::uint8_t>(activity.elsewhere))
      .put(activity.sequence)
      .put(static_cast<std::uint64_t>(age.count()));
  encode_signature(writer, activity.call);
  const auto count = std::min(unacknowledged.size(), max_unacknowledged_reported);
  writer.put(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    writer.put(static_cast<std::uint32_t>(unacknowledged[i].peer))
        .put(unacknowledged[i].data.bytes)
        .put(unacknowledged[i].data.times)
        .put(unacknowledged[i].data.packet_bytes)
        .put(static_cast<std::uint8_t>(unacknowledged[i].data.is_ipv6));
  }
  return std::move(writer).bytes();
}

std::optional<StatusMessage> decode_status(std::span<const std::byte> bytes, int size) {
  ByteReader reader(bytes);
  StatusMessage message;
  auto& [activity, unacknowledged] = message.status;
  message.communicator = reader.get<std::uint32_t>();
  activity.in_call = reader.get<std::uint8_t>() != 0;
  activity.elsewhere = reader.get<std::uint8_t>() != 0;
  activity.sequence = reader.get<std::uint64_t>();
  // Limit a peer's value to what the clock can represent.
  const auto age = reader.get<std::uint64_t>() % 1'000'000'000'000U;
  activity.since = std::chrono::steady_clock::now() - std::chrono::milliseconds(age);
  const auto call = decode_signature(reader);
  if (!call) return std::nullopt;
  activity.call = *call;
  const auto count = reader.get<std::uint8_t>();
  if (count > max_unacknowledged_reported) return std::nullopt;
  for (int i = 0; i < count; ++i) {
    const auto peer = reader.get<std::uint32_t>();
    UnacknowledgedData data{.peer = static_cast<int>(peer), .data = {}};
    data.data.bytes = reader.get<std::uint64_t>();
    data.data.times = reader.get<std::uint32_t>();
    data.data.packet_bytes = reader.get<std::uint32_t>();
    data.data.is_ipv6 = reader.get<std::uint8_t>() != 0;
    if (!reader.ok() || peer >= static_cast<std::uint32_t>(size)) return std::nullopt;
    unacknowledged.push_back(data);
  }
  if (!reader.ok()) return std::nullopt;
  return message;
}

}  // namespace tutti::control
