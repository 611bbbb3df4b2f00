// Messages that are read from the sender's memory (single copy).
#include <algorithm>

#include "base/shape.hpp"
#include "transport/incoming_half.hpp"

namespace tutti::transport {
namespace {

// Bytes read from the memory of a peer before it is served again.
constexpr std::size_t offered_piece_bytes = std::size_t{1} << 20;

}  // namespace

bool IncomingHalf::expects_offer(const Stream& stream) const {
  return endpoint_->has_rings() && stream.bytes.posted() >= min_single_copy_bytes &&
         !shape_of(stream.ours.signature.operation).reduces &&
         (endpoint_->memory().always_reads() ||
          offers_.expects_offer(static_cast<std::size_t>(stream.bytes.posted())));
}

bool IncomingHalf::has_ready_offer() {
  return std::any_of(offered_.begin(), offered_.end(), [this](const StreamKey& key) {
    return streams_.find(key)->second.bytes.has_request();
  });
}

/// Returns the bytes moved.
std::size_t IncomingHalf::take_offered() {
  for (const auto& key : offered_) {
    auto& stream = streams_.find(key)->second;
    if (stream.bytes.has_request()) return take_offered(stream);
  }
  return 0;
}

/// Reads a piece of a stream's offer, or declines it.
std::size_t IncomingHalf::take_offered(Stream& stream) {
  auto& offer = stream.offer;
  if (!offer.answer) {
    offer.answer = OfferChoice::Answer{.reads = endpoint_->memory().always_reads()};
    // The ring's first use takes page faults, which say nothing about later messages.
    offer.is_timed = !offer.answer->reads && endpoint_->input().has_wrapped();
    if (offer.is_timed) offer.answer = offers_.next(offer.left);
    offer.bytes = offer.left;
    offer.begun = std::chrono::steady_clock::now();
  }
  // Empty if the bytes must be reduced.
  const auto space = stream.bytes.direct_space();
  const auto piece = std::min({space.size(), offer.left, offered_piece_bytes});
  auto result = SingleCopy::Result::refused;
  if (offer.answer->reads && piece > 0) {
    result = endpoint_->memory().read_sender(space.data(), offer.address, piece);
  }
  if (result == SingleCopy::Result::read) {
    stream.bytes.put_directly(piece);
    offer.address += piece;
    offer.left -= piece;
    if (offer.left > 0) return piece;
    if (offer.is_timed)
      offers_.took(offer.bytes, true, std::chrono::steady_clock::now() - offer.begun);
  }
  std::erase(offered_, stream.ours.key);
  if (result == SingleCopy::Result::gone) return piece;  // the control plane reports it
  // Memory of a device, for example, can't be read.
  const bool pauses = offer.answer->pauses || (offer.answer->reads && offer.left > 0);
  if (!offer.answer->reads && offer.is_timed)
    offer.measured_to = stream.bytes.arrived() + offer.left;
  const auto reply = encode({.kind = FrameKind::taken,
                             .payload = pauses ? 1U : 0U,
                             .position = stream.bytes.arrived(),
                             .call = stream.ours});
  offer.left = 0;
  offer.answer.reset();
  outgoing_.insert(outgoing_.end(), reply.begin(), reply.end());
  write();
  if (stream.bytes.posted() > stream.bytes.arrived()) clear_if_due(stream);
  return std::max(piece, frame_header_bytes);
}

}  // namespace tutti::transport
