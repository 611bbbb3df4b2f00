#include "transport/incoming_half.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/outgoing_half.hpp"

namespace tutti::transport {
namespace {

// A piece to reduce is read, then reduced, while it is still in the first-level or second-level
// cache.
constexpr std::size_t staging_bytes = std::size_t{64} << 10;
// Of a ring so much is read, or reduced, before the sender gets the room back.
constexpr std::size_t ring_piece_bytes = std::size_t{16} << 10;
// After so much from one peer the others get their turn.
constexpr std::size_t fair_share = std::size_t{2} << 20;

}  // namespace

IncomingHalf::IncomingHalf(int peer, std::size_t eager_bytes, CallInspector& inspector)
    : peer_(peer), eager_bytes_(eager_bytes), inspector_(inspector) {}

void IncomingHalf::connect(LinkEndpoint endpoint) {
  endpoint_ = std::move(endpoint);
  for (auto& [key, stream] : streams_) clear_if_due(stream);
}

void IncomingHalf::post(RecvRequest& request) {
  auto& stream = streams_.open(request.call->key).first;
  const bool is_first = stream.bytes.posted() == 0;
  stream.ours = *request.call;
  if (is_first && stream.theirs && !inspector_.on_peer_call(peer_, *stream.theirs)) {
    contradicted_ = true;
    return;
  }
  if (request.to.empty()) {
    request.awaits_call = request.awaits_call && !stream.theirs;
    stream.empty_request = &request;
    return;
  }
  stream.bytes.post(request);
  if (const auto taken = stream.bytes.take_kept(); taken > 0) {
    kept_ -= taken;
    return_credit(taken);
  }
  clear_if_due(stream);
}

Receipt IncomingHalf::try_receive(const CallContext& call, std::span<std::byte> bytes) {
  const auto size = bytes.size();
  if (!endpoint_.has_rings() || is_over() || frame_ || streams_.size() != 0 || size == 0 ||
      size > std::min(eager_bytes_, max_bytes_at_once)) {
    return Receipt::refused;
  }
  endpoint_.begin_frame_in();
  auto& ring = endpoint_.input();
  ring.prefetch();
  if (ring.available() < frame_header_bytes + size) return Receipt::awaited;
  // Only if it is to the last byte what is expected: all else the request sees to.
  const auto header =
      encode({.kind = FrameKind::eager, .payload = static_cast<std::uint32_t>(size), .call = call});
  if (!ring.starts_with(header)) return Receipt::refused;
  ring.consume(frame_header_bytes);
  const std::array<iovec, 1> part{{{bytes.data(), size}}};
  if (ring.read(part) != size) {
    fail("the peer has taken back what it sent");
    return Receipt::refused;
  }
  return_credit(size);
  endpoint_.wake_peer();
  return Receipt::taken;
}

void IncomingHalf::finish(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  kept_ -= found->second.bytes.kept();
  return_credit(found->second.bytes.kept());
  streams_.close(found);
}

void IncomingHalf::clear_if_due(Stream& stream) {
  const auto posted = stream.bytes.posted();
  if (!endpoint_ || posted <= stream.cleared) return;
  if (posted <= eager_bytes_ && !stream.wanted) return;
  stream.cleared = posted;
  const auto header =
      encode({.kind = FrameKind::clear_to_send, .position = posted, .call = stream.ours});
  outgoing_.insert(outgoing_.end(), header.begin(), header.end());
  write();
}

void IncomingHalf::return_credit(std::size_t bytes) {
  credit_to_return_ += bytes;
  // Many small returns in one: three quarters of the credit stay with the sender meanwhile.
  if (credit_to_return_ == 0 || credit_to_return_ < eager_credit(eager_bytes_) / 4) return;
  const auto header = encode({.kind = FrameKind::credit, .position = credit_to_return_});
  credit_to_return_ = 0;
  outgoing_.insert(outgoing_.end(), header.begin(), header.end());
  write();
}

bool IncomingHalf::write() {
  blocked_ = false;
  std::size_t sent = 0;
  while (endpoint_ && endpoint_.is_settled() && sent < outgoing_.size()) {
    auto count = outgoing_.size() - sent;
    if (max_written_ > 0) count = std::min(count, max_written_);
    const std::array<iovec, 1> part{{{outgoing_.data() + sent, count}}};
    const auto done = endpoint_.write(part);
    if (done >= 0) {
      sent += static_cast<std::size_t>(done);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      blocked_ = true;
      break;
    } else {
      sent = outgoing_.size();  // broken: reading finds out, after what has already arrived
    }
  }
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(sent));
  return sent > 0;
}

bool IncomingHalf::read() {
  std::size_t moved = 0;
  if (!settle()) return false;
  if (endpoint_.has_rings()) {
    while (moved < fair_share && !is_over()) {
      const auto taken = take_from_ring();
      if (taken == 0) break;
      moved += taken;
    }
    if (moved > 0) endpoint_.wake_peer();
    return moved > 0;
  }
  while (endpoint_ && failure_.empty() && !contradicted_) {
    // First what is there already, then more from the kernel.
    if (frame_ ? take_payload() : take_header()) continue;
    // Only between reads: what is staged must not wait for an event that may never come.
    const bool had_enough = moved >= fair_share;
    if (!failure_.empty() || contradicted_) break;
    if (had_enough && !endpoint_.has_buffered_data()) break;
    const auto got = fill(!had_enough);
    if (got == 0) break;
    moved += got;
  }
  return moved > 0;
}

/// Reads once from the socket: the payload that is due straight into its place, what follows into
/// the staging buffer. `ahead`: an encrypted socket may be emptied further than that.
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
    auto room = stream->kept() == 0 ? stream->direct_space() : std::span<std::byte>();
    room = room.first(std::min(room.size(), payload_left_));
    direct = room.size();
    if (direct > 0) parts[count++] = {room.data(), direct};
  }
  if (direct == 0 || direct == payload_left_) {
    parts[count++] = {staging_.data() + staged_end_, staging_.size() - staged_end_};
  }
  const auto result = endpoint_.read(std::span(parts).first(count), ahead);
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (result <= 0) {
    fail(result == 0 ? "the peer closed it" : endpoint_.explain(errno));
    return 0;
  }
  const auto got = static_cast<std::size_t>(result);
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

/// False before it is known how the bytes come, and where that can't be known any more.
bool IncomingHalf::settle() {
  if (!endpoint_ || is_over()) return false;
  if (endpoint_.is_settled()) return true;
  if (!endpoint_.settle()) {
    fail(errno == EPROTO ? "the peer sent what is no link's first byte" : endpoint_.explain(errno));
    return false;
  }
  if (endpoint_.is_settled()) write();
  return endpoint_.is_settled();
}

/// Reads a header, or a piece of the payload, where it lies.
std::size_t IncomingHalf::take_from_ring() {
  auto& ring = endpoint_.input();
  if (!frame_) endpoint_.begin_frame_in();
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
  if (endpoint_.is_closed()) fail("the peer closed it");
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
    if (!contradicted_) fail("the peer sent what is no frame");
    return false;
  }
  return true;
}

bool IncomingHalf::on_frame(const Frame& frame) {
  if (frame.kind == FrameKind::clear_to_send || frame.kind == FrameKind::credit) return false;
  if (streams_.size() >= max_streams) return false;
  auto& stream = streams_.open(frame.call.key).first;
  if (!stream.theirs) {
    stream.theirs = frame.call;
    if (!inspector_.on_peer_call(peer_, frame.call)) {
      contradicted_ = true;
      return false;
    }
    if (stream.empty_request != nullptr) stream.empty_request->awaits_call = false;
  }
  if (frame.kind == FrameKind::want) {
    stream.wanted = true;
    clear_if_due(stream);
    return true;
  }
  if (frame.position != stream.bytes.arrived()) return false;
  const auto end = frame.position + frame.payload;
  if (frame.kind == FrameKind::data && end > stream.cleared) return false;
  if (frame.kind == FrameKind::eager &&
      (end > eager_bytes_ || kept_ + frame.payload > eager_credit(eager_bytes_))) {
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
  const auto taken = stream.bytes.put(payload, is_eager);
  payload_left_ -= payload.size();
  if (payload_left_ == 0) frame_.reset();
  if (is_eager) {
    kept_ += payload.size() - taken;
    return_credit(taken);
  }
}

void IncomingHalf::abandon(const std::string& reason) {
  fail(reason);
  streams_.clear();
  frame_.reset();
}

void IncomingHalf::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

}  // namespace tutti::transport
