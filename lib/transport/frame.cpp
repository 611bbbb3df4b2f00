#include "transport/frame.hpp"

namespace tutti::transport {
namespace {

// No allocation: every short message writes a header.
class HeaderWriter {
 public:
  explicit HeaderWriter(FrameHeader& header) : header_(header) {}
  template <class T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      header_[at_++] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
    }
  }

 private:
  FrameHeader& header_;
  std::size_t at_ = 0;
};

class HeaderReader {
 public:
  explicit HeaderReader(std::span<const std::byte, frame_header_bytes> header) : header_(header) {}
  template <class T>
  T get() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<std::uint64_t>(header_[at_++]) << (8 * i);
    }
    return static_cast<T>(value);
  }

 private:
  std::span<const std::byte, frame_header_bytes> header_;
  std::size_t at_ = 0;
};

}  // namespace

FrameHeader encode(const Frame& frame) {
  FrameHeader header{};
  HeaderWriter writer(header);
  const auto& call = frame.call;
  writer.put(static_cast<std::uint8_t>(frame.kind));
  writer.put(static_cast<std::uint8_t>(call.key.kind));
  writer.put(static_cast<std::uint8_t>(call.signature.operation));
  writer.put(static_cast<std::uint8_t>(call.signature.type));
  writer.put(frame.payload);
  writer.put(call.key.communicator);
  writer.put(call.key.tag);
  writer.put(call.key.sequence);
  writer.put(frame.position);
  writer.put(call.fingerprint);
  writer.put(call.signature.count);
  writer.put(static_cast<std::uint32_t>(call.signature.root));
  writer.put(static_cast<std::uint8_t>(call.signature.op));
  writer.put(call.signature.algorithm);
  writer.put(std::uint16_t{0});
  return header;
}

std::optional<Frame> decode(std::span<const std::byte, frame_header_bytes> header) {
  HeaderReader reader(header);
  Frame frame;
  auto& call = frame.call;
  const auto kind = reader.get<std::uint8_t>();
  const auto stream_kind = reader.get<std::uint8_t>();
  const auto operation = reader.get<std::uint8_t>();
  const auto type = reader.get<std::uint8_t>();
  frame.payload = reader.get<std::uint32_t>();
  call.key.communicator = reader.get<std::uint32_t>();
  call.key.tag = reader.get<std::uint32_t>();
  call.key.sequence = reader.get<std::uint64_t>();
  frame.position = reader.get<std::uint64_t>();
  call.fingerprint = reader.get<std::uint64_t>();
  call.signature.count = reader.get<std::uint64_t>();
  call.signature.root = static_cast<std::int32_t>(reader.get<std::uint32_t>());
  const auto op = reader.get<std::uint8_t>();
  call.signature.algorithm = reader.get<std::uint8_t>();
  const auto zero = reader.get<std::uint16_t>();

  if (kind < static_cast<std::uint8_t>(FrameKind::data) ||
      kind > static_cast<std::uint8_t>(FrameKind::taken) ||
      stream_kind > static_cast<std::uint8_t>(StreamKind::message) ||
      operation >= operation_count || type >= type_count || op >= operator_count ||
      call.signature.algorithm >= algorithm_id_count || zero != 0) {
    return std::nullopt;
  }
  frame.kind = static_cast<FrameKind>(kind);
  call.key.kind = static_cast<StreamKind>(stream_kind);
  call.signature.operation = static_cast<Operation>(operation);
  call.signature.type = static_cast<Type>(type);
  call.signature.op = static_cast<Operator>(op);

  std::size_t min = 0;
  std::size_t max = 0;
  switch (frame.kind) {
    case FrameKind::data:
    case FrameKind::eager:
      min = 1;
      max = max_payload_bytes;
      break;
    case FrameKind::offer:
      min = 1;
      max = max_offered_bytes;
      break;
    case FrameKind::taken:
      max = 1;
      break;
    default:
      break;
  }
  if (frame.payload < min || frame.payload > max) return std::nullopt;
  return frame;
}

}  // namespace tutti::transport
