#include "transport/incoming_half.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/outgoing_half.hpp"

namespace tutti::transport {
namespace {

// Data to reduce is read in pieces that are reduced while they are in the L1 or L2 cache.
constexpr std::size_t staging_bytes = std::size_t{64} << 10;
// Bytes read or reduced from a ring before the sender gets the space back.
constexpr std::size_t ring_piece_bytes = std::size_t{16} << 10;
// Bytes read from one peer before the others are served.
constexpr std::size_t fair_share = std::size_t{2} << 20;
// Frames that wait for space in the socket.
constexpr std::size_t usual_replies = 8;
// Memory for unexpected bytes that is kept for reuse: of as many streams as ranks that repeat a few
// blocking calls have open at once.
constexpr std::size_t max_spare_buffers = 4;
constexpr std::size_t max_kept_buffer = std::size_t{128} << 10;

}  // namespace

IncomingHalf::IncomingHalf(int peer, std::size_t eager_bytes, CallInspector& inspector)
    : peer_(peer), eager_bytes_(eager_bytes), inspector_(inspector) {
  outgoing_.reserve(usual_replies * frame_header_bytes);
  spare_buffers_.resize(max_spare_buffers);
}

void IncomingHalf::connect(LinkEndpoint endpoint) {
  own_ = std::move(endpoint);
  use_endpoint();
}

void IncomingHalf::share_connection(OutgoingHalf& half) {
  writer_ = &half;
  endpoint_ = &half.lend_endpoint();
  use_endpoint();
}

void IncomingHalf::use_endpoint() {
  // Address space only, until a peer is first.
  for (auto& buffer : spare_buffers_) buffer.reserve(std::min(eager_bytes_, max_kept_buffer));
  for (auto& [key, stream] : streams_) clear_if_due(stream);
}

void IncomingHalf::post(RecvRequest& request) {
  auto& stream = streams_.open(request.call->key).first;
  const bool is_first = stream.bytes.posted() == 0;
  stream.ours = *request.call;
  if (is_first && stream.theirs && !inspector_.on_peer_call(peer_, *stream.theirs)) {
    mismatched_ = true;
    return;
  }
  if (request.to.empty()) {
    request.awaits_call = request.awaits_call && !stream.theirs;
    stream.empty_request = &request;
    return;
  }
  stream.bytes.post(request);
  if (const auto taken = stream.bytes.take_buffered(); taken > 0) {
    buffered_ -= taken;
    take_memory_back(stream.bytes);
    return_credit(taken);
  }
  clear_if_due(stream);
}

/// Most streams need no memory for unexpected bytes.
void IncomingHalf::lend_memory(IncomingStream& stream) {
  if (stream.memory().capacity() != 0 || spare_buffers_.empty()) return;
  stream.memory().swap(spare_buffers_.back());
  spare_buffers_.pop_back();
}

void IncomingHalf::take_memory_back(IncomingStream& stream) {
  auto& memory = stream.memory();
  if (stream.buffered() > 0 || memory.capacity() == 0) return;
  memory.clear();
  if (spare_buffers_.size() < max_spare_buffers && memory.capacity() <= max_kept_buffer) {
    spare_buffers_.push_back(std::move(memory));
  }
  memory = {};
}

Receipt IncomingHalf::try_receive(const CallContext& call, std::span<std::byte> bytes) {
  const auto size = bytes.size();
  if (!endpoint_->has_rings() || is_over() || frame_ || streams_.size() != 0 || size == 0 ||
      size > std::min(eager_bytes_, max_bytes_at_once)) {
    return Receipt::refused;
  }
  endpoint_->begin_frame_in();
  auto& ring = endpoint_->input();
  ring.prefetch();
  if (ring.available() < frame_header_bytes + size) return Receipt::awaited;
  // Accept only the exact header; a request handles everything else.
  const auto header =
      encode({.kind = FrameKind::eager, .payload = static_cast<std::uint32_t>(size), .call = call});
  if (!ring.starts_with(header)) return Receipt::refused;
  ring.consume(frame_header_bytes);
  const std::array<iovec, 1> part{{{bytes.data(), size}}};
  if (ring.read(part) != size) {
    fail("the peer overwrote data that it had sent");
    return Receipt::refused;
  }
  return_credit(size);
  endpoint_->wake_peer();
  return Receipt::taken;
}

bool IncomingHalf::has_arrived(const StreamKey& key) {
  const auto found = streams_.find(key);
  return found != streams_.end() && found->second.theirs.has_value();
}

void IncomingHalf::finish(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  if (found->second.offer.left > 0) std::erase(offered_, key);
  take_memory_back(found->second.bytes);
  buffered_ -= found->second.bytes.buffered();
  return_credit(found->second.bytes.buffered());
  streams_.close(found);
}

void IncomingHalf::clear_if_due(Stream& stream) {
  const auto posted = stream.bytes.posted();
  if (!*endpoint_ || posted <= stream.cleared || stream.offer.left > 0) return;
  if (posted <= eager_bytes_ && !stream.requested) return;
  // An offer needs no clear-to-send. Without one, the sender asks, but only before the first
  // clear-to-send: from then on it waits for the next.
  if (!stream.requested && stream.cleared == 0 && expects_offer(stream)) return;
  stream.cleared = posted;
  const auto header =
      encode({.kind = FrameKind::clear_to_send, .position = posted, .call = stream.ours});
  outgoing_.insert(outgoing_.end(), header.begin(), header.end());
  write();
}

void IncomingHalf::return_credit(std::size_t bytes) {
  credit_to_return_ += bytes;
  // Batch small returns; the sender keeps three quarters of the credit meanwhile.
  if (credit_to_return_ == 0 || credit_to_return_ < eager_credit(eager_bytes_) / 4) return;
  const auto header = encode({.kind = FrameKind::credit, .position = credit_to_return_});
  credit_to_return_ = 0;
  outgoing_.insert(outgoing_.end(), header.begin(), header.end());
  write();
}

bool IncomingHalf::write() {
  if (writer_ != nullptr) {
    const bool moved = !outgoing_.empty() && writer_->reply(outgoing_);
    outgoing_.clear();
    return moved;
  }
  blocked_ = false;
  std::size_t sent = 0;
  while (*endpoint_ && endpoint_->is_negotiated() && sent < outgoing_.size()) {
    auto count = outgoing_.size() - sent;
    if (max_written_ > 0) count = std::min(count, max_written_);
    const std::array<iovec, 1> part{{{outgoing_.data() + sent, count}}};
    const auto done = endpoint_->write(part);
    if (done >= 0) {
      sent += static_cast<std::size_t>(done);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      blocked_ = true;
      break;
    } else {
      sent = outgoing_.size();  // broken: the next read fails, after the data that has arrived
    }
  }
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(sent));
  return sent > 0;
}

bool IncomingHalf::read() {
  std::size_t moved = 0;
  if (!negotiate()) return false;
  if (endpoint_->has_rings()) {
    while (moved < fair_share && !is_over()) {
      auto taken = take_from_ring();
      if (taken == 0 && !is_over()) taken = take_offered();
      if (taken == 0) break;
      moved += taken;
    }
    if (moved > 0) endpoint_->wake_peer();
    return moved > 0;
  }
  is_drained_ = false;
  while (*endpoint_ && failure_.empty() && !mismatched_) {
    // Parse what has been read before reading more.
    if (frame_ ? take_payload() : take_header()) continue;
    // Stop only between reads: no event would announce data in the staging buffer.
    const bool had_enough = moved >= fair_share || is_drained_;
    if (!failure_.empty() || mismatched_) break;
    if (had_enough && !endpoint_->has_buffered_data()) break;
    const auto got = fill(!had_enough);
    if (got == 0) break;
    moved += got;
  }
  return moved > 0;
}

/// Reads once from the socket: the current payload directly into its request, the rest into the
/// staging buffer. `ahead`: an encrypted socket may be drained further.
std::size_t IncomingHalf::fill(bool ahead) {
  if (staging_.empty()) staging_.resize(staging_bytes);
  if (staged_begin_ == staged_end_) {
    staged_begin_ = staged_end_ = 0;
  } else if (staged_begin_ > 0) {
    std::memmove(staging_.data(), staging_.data() + staged_begin_, staged_end_ - staged_begin_);
    staged_end_ -= staged_begin_;
    staged_begin_ = 0;
  }
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  std::size_t direct = 0;
  IncomingStream* stream = nullptr;
  if (frame_ && staged_end_ == 0) {
    stream = &streams_.open(frame_->call.key).first.bytes;
    auto space = stream->buffered() == 0 ? stream->direct_space() : std::span<std::byte>();
    space = space.first(std::min(space.size(), payload_left_));
    direct = space.size();
    if (direct > 0) parts[count++] = {space.data(), direct};
  }
  if (direct == 0 || direct == payload_left_) {
    parts[count++] = {staging_.data() + staged_end_, staging_.size() - staged_end_};
  }
  const auto result = endpoint_->read(std::span(parts).first(count), ahead);
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (result <= 0) {
    fail(result == 0 ? "the peer closed the connection" : endpoint_->explain(errno));
    return 0;
  }
  const auto got = static_cast<std::size_t>(result);
  // Another read would find nothing; what arrives meanwhile raises an event.
  is_drained_ = got < parts[0].iov_len + parts[1].iov_len;
  const auto placed = std::min(got, direct);
  if (placed > 0) {
    stream->put_directly(placed);
    payload_left_ -= placed;
    if (frame_->kind == FrameKind::eager) return_credit(placed);
    if (payload_left_ == 0) frame_.reset();
  }
  staged_end_ += got - placed;
  return got;
}

/// Returns false until the choice between socket and rings is known, or if it is invalid.
bool IncomingHalf::negotiate() {
  if (!*endpoint_ || is_over()) return false;
  if (endpoint_->is_negotiated()) return true;
  if (!endpoint_->negotiate()) {
    fail(errno == EPROTO ? "invalid first byte from the peer" : endpoint_->explain(errno));
    return false;
  }
  if (endpoint_->is_negotiated()) write();
  return endpoint_->is_negotiated();
}

/// Handles a header, or a piece of payload, in place.
std::size_t IncomingHalf::take_from_ring() {
  auto& ring = endpoint_->input();
  if (!frame_) endpoint_->begin_frame_in();
  const auto there = ring.available();
  if (!frame_ && there >= frame_header_bytes) {
    FrameHeader header;
    const std::array<iovec, 1> part{{{header.data(), header.size()}}};
    ring.read(part);
    accept(header);
    return frame_header_bytes;
  }
  if (frame_ && there > 0) {
    auto piece = ring.peek();
    piece = piece.first(std::min({piece.size(), payload_left_, ring_piece_bytes}));
    deliver(piece);
    ring.consume(piece.size());
    return piece.size();
  }
  if (endpoint_->is_closed()) fail("the peer closed the connection");
  return 0;
}

bool IncomingHalf::take_header() {
  if (staged_end_ - staged_begin_ < frame_header_bytes) return false;
  const std::span<const std::byte, frame_header_bytes> header(staging_.data() + staged_begin_,
                                                              frame_header_bytes);
  staged_begin_ += frame_header_bytes;
  return accept(header);
}

bool IncomingHalf::accept(std::span<const std::byte, frame_header_bytes> header) {
  const auto frame = decode(header);
  if (!frame || !on_frame(*frame)) {
    if (!mismatched_) fail("malformed frame from the peer");
    return false;
  }
  return true;
}

bool IncomingHalf::on_frame(const Frame& frame) {
  if (frame.kind == FrameKind::clear_to_send || frame.kind == FrameKind::credit ||
      frame.kind == FrameKind::taken) {
    return writer_ != nullptr && writer_->on_reply(frame);
  }
  if (streams_.size() >= max_streams) return false;
  auto& stream = streams_.open(frame.call.key).first;
  if (!stream.theirs) {
    stream.theirs = frame.call;
    if (!inspector_.on_peer_call(peer_, frame.call)) {
      mismatched_ = true;
      return false;
    }
    if (stream.empty_request != nullptr) stream.empty_request->awaits_call = false;
  }
  if (frame.kind == FrameKind::request_to_send) {
    stream.requested = true;
    clear_if_due(stream);
    return true;
  }
  if (frame.kind == FrameKind::offer) {
    if (!endpoint_->has_rings() || stream.offer.left > 0) return false;
    stream.requested = true;
    stream.offer = {.address = frame.position, .left = frame.payload};
    offered_.push_back(frame.call.key);
    return true;
  }
  if (frame.position != stream.bytes.arrived() || stream.offer.left > 0) return false;
  const auto end = frame.position + frame.payload;
  if (frame.kind == FrameKind::data && end > stream.cleared) return false;
  if (frame.kind == FrameKind::eager &&
      (end > eager_bytes_ || buffered_ + frame.payload > eager_credit(eager_bytes_))) {
    return false;
  }
  frame_ = frame;
  payload_left_ = frame.payload;
  return true;
}

bool IncomingHalf::take_payload() {
  const auto available = std::min(payload_left_, staged_end_ - staged_begin_);
  if (available == 0) return false;
  deliver(std::span<const std::byte>(staging_).subspan(staged_begin_, available));
  staged_begin_ += available;
  return true;
}

void IncomingHalf::deliver(std::span<const std::byte> payload) {
  auto& stream = streams_.open(frame_->call.key).first;
  const bool is_eager = frame_->kind == FrameKind::eager;
  if (is_eager) lend_memory(stream.bytes);
  const auto taken = stream.bytes.put(payload, is_eager);
  if (is_eager) take_memory_back(stream.bytes);
  payload_left_ -= payload.size();
  if (payload_left_ == 0) frame_.reset();
  if (auto& offer = stream.offer;
      offer.measured_to != 0 && stream.bytes.arrived() >= offer.measured_to) {
    offer.measured_to = 0;
    offers_.took(offer.bytes, false, std::chrono::steady_clock::now() - offer.begun);
  }
  if (is_eager) {
    buffered_ += payload.size() - taken;
    return_credit(taken);
  }
}

void IncomingHalf::abandon(const std::string& reason) {
  fail(reason);
  streams_.clear();
  offered_.clear();
  frame_.reset();
}

void IncomingHalf::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

}  // namespace tutti::transport
