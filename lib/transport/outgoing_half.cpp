#include "transport/outgoing_half.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/shape.hpp"

namespace tutti::transport {
namespace {

// Longer messages overlap with their receiver, so all their time counts. Of shorter ones only the
// copying counts, not the wait for clear-to-send.
constexpr std::size_t min_interleaved_bytes = std::size_t{256} << 10;
// Frames of the incoming half that wait for a frame in progress.
constexpr std::size_t usual_waiting_replies = 64;

}  // namespace

OutgoingHalf::OutgoingHalf(int peer, std::size_t eager_bytes, CallInspector& inspector)
    : peer_(peer),
      eager_bytes_(eager_bytes),
      inspector_(inspector),
      credit_(eager_credit(eager_bytes)) {}

void OutgoingHalf::connect(LinkEndpoint endpoint) {
  endpoint_ = std::move(endpoint);
  if (endpoint_.has_rings()) copies_ = std::make_unique<CopyChoice>();
}

LinkEndpoint& OutgoingHalf::lend_endpoint() {
  is_shared_ = true;
  replies_.reserve(usual_waiting_replies * frame_header_bytes);
  return endpoint_;
}

bool OutgoingHalf::reply(std::span<const std::byte> frames) {
  replies_.insert(replies_.end(), frames.begin(), frames.end());
  return write();
}

void OutgoingHalf::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

OutgoingHalf::Stream& OutgoingHalf::stream_of(const CallContext& call) {
  const auto [stream, is_new] = streams_.open(call.key);
  if (is_new) stream.call = call;
  return stream;
}

void OutgoingHalf::post(SendRequest& request) {
  auto& stream = stream_of(*request.call);
  // Clear-to-send may have arrived before this rank's call: only now can the two be compared.
  if (!stream.inspected && stream.cleared > 0 && !inspector_.on_peer_call(peer_, stream.call)) {
    stream.cleared = 0;
  }
  stream.inspected = true;
  stream.call = *request.call;
  if (!request.done()) stream.requests.push_back(request);
}

bool OutgoingHalf::try_send(const CallContext& call, std::span<const std::byte> bytes) {
  const auto size = bytes.size();
  if (!endpoint_.has_rings() || max_written_ != 0 || size == 0 ||
      size > std::min(eager_bytes_, max_bytes_at_once)) {
    return false;
  }
  if (credit_ < size && endpoint_.has_input()) read();
  if (is_over() || current_ || streams_.size() != 0) return false;
  endpoint_.begin_frame_out();
  if (credit_ < size || !endpoint_.has_space(frame_header_bytes + size)) return false;
  auto header =
      encode({.kind = FrameKind::eager, .payload = static_cast<std::uint32_t>(size), .call = call});
  const std::array<iovec, 2> parts{
      {{header.data(), header.size()}, {const_cast<std::byte*>(bytes.data()), size}}};
  // If the peer is gone, a request reports it.
  if (endpoint_.write(parts) < 0) return false;
  credit_ -= size;
  return true;
}

void OutgoingHalf::finish(const StreamKey& key) {
  if (const auto found = streams_.find(key); found != streams_.end()) streams_.close(found);
}

void OutgoingHalf::abandon(const std::string& reason) {
  fail(reason);
  streams_.clear();
  current_.reset();
  measured_ = nullptr;
}

bool OutgoingHalf::write() {
  bool moved = false;
  blocked_ = false;
  while (endpoint_ && failure_.empty()) {
    if (!current_ && !replies_.empty()) {
      if (!send_replies()) break;
      moved = true;
    }
    if (!current_ && !start_next_frame()) break;
    if (!send_current()) break;
    moved = true;
  }
  return moved;
}

/// Returns true once all are sent: only then another frame may begin.
bool OutgoingHalf::send_replies() {
  while (replies_sent_ < replies_.size()) {
    auto count = replies_.size() - replies_sent_;
    if (max_written_ > 0) count = std::min(count, max_written_);
    const std::array<iovec, 1> part{{{replies_.data() + replies_sent_, count}}};
    const auto done = endpoint_.write(part);
    if (done < 0) {
      blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
      if (!blocked_) fail(endpoint_.explain(errno));
      return false;
    }
    replies_sent_ += static_cast<std::size_t>(done);
  }
  replies_.clear();
  replies_sent_ = 0;
  return true;
}

bool OutgoingHalf::start_next_frame() {
  // Round robin, so that a long stream does not starve the others.
  const auto start = streams_.after(last_served_);
  for (auto it = start; it != streams_.end(); ++it) {
    if (start_frame(it->second)) return true;
  }
  for (auto it = streams_.begin(); it != start; ++it) {
    if (start_frame(it->second)) return true;
  }
  return false;
}

bool OutgoingHalf::start_frame(Stream& stream) {
  if (stream.requests.empty()) return false;
  const auto& request = *stream.requests.front();
  const std::uint64_t left = request.from.size() - request.sent;
  if (request.names_call) {
    current_.emplace(Current{});
    current_->header = encode({.kind = FrameKind::request_to_send, .call = stream.call});
    current_->stream = &stream;
    return true;
  }

  if (stream.offered != 0) return false;
  if (may_offer(stream, request)) {
    stream.requested = true;
    stream.offered = request.from.size();
    current_.emplace(Current{});
    current_->header = encode({.kind = FrameKind::offer,
                               .payload = static_cast<std::uint32_t>(request.from.size()),
                               .position = reinterpret_cast<std::uintptr_t>(request.from.data()),
                               .call = stream.call});
    return true;
  }

  Frame frame{.kind = FrameKind::data, .position = stream.sent, .call = stream.call};
  auto allowed = stream.cleared > stream.sent ? stream.cleared - stream.sent : 0;
  if (allowed == 0) {
    frame.kind = FrameKind::eager;
    // Only a stream's first bytes, and none after a request to send: then its last clear-to-send
    // always arrives before its end, and none is left over.
    if (stream.sent < eager_bytes_ && !stream.requested) {
      allowed = std::min<std::uint64_t>(eager_bytes_ - stream.sent, credit_);
    }
  }
  if (allowed == 0) {
    if (stream.requested || stream.sent > eager_bytes_) return false;
    stream.requested = true;
    current_.emplace(Current{});
    current_->header =
        encode({.kind = FrameKind::request_to_send, .position = stream.sent, .call = stream.call});
    return true;
  }
  if (copies_ && request.sent == 0) begin_copies(request);
  const auto payload = std::min<std::uint64_t>({left, allowed, max_payload_bytes});
  frame.payload = static_cast<std::uint32_t>(payload);
  if (frame.kind == FrameKind::eager) credit_ -= payload;
  stream.sent += payload;
  last_served_ = stream.call.key;
  current_.emplace(Current{});
  current_->header = encode(frame);
  current_->stream = &stream;
  current_->payload_left = static_cast<std::size_t>(payload);
  return true;
}

/// Eager messages are not offered: their sender need not wait for the receiver.
bool OutgoingHalf::may_offer(const Stream& stream, const SendRequest& request) {
  const auto bytes = request.from.size();
  if (!endpoint_.has_rings() || stream.declined || request.sent != 0 || bytes <= eager_bytes_ ||
      bytes < min_single_copy_bytes || bytes > max_offered_bytes ||
      shape_of(stream.call.signature.operation).reduces || !endpoint_.memory().receiver_reads())
    return false;
  auto& pause = pauses_[single_copy_size_class(bytes)];
  if (pause == 0) return true;
  --pause;
  return false;
}

/// Returns true if the current frame has been sent completely.
bool OutgoingHalf::send_current() {
  auto& current = *current_;
  auto* const request = current.stream != nullptr ? current.stream->requests.front() : nullptr;
  while (true) {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (current.header_sent < frame_header_bytes) {
      if (current.header_sent == 0) endpoint_.begin_frame_out();
      parts[count++] = {current.header.data() + current.header_sent,
                        frame_header_bytes - current.header_sent};
    }
    if (request != nullptr && current.payload_left > 0) {
      // sendmsg only reads, but iovec is not const.
      auto* from = const_cast<std::byte*>(request->from.data()) + request->sent;
      parts[count++] = {from, current.payload_left};
    }
    if (count == 0) break;
    if (max_written_ > 0) {
      count = 1;
      parts[0].iov_len = std::min(parts[0].iov_len, max_written_);
    }
    const auto result = write_parts(std::span(parts).first(count), request);
    if (result < 0) {
      blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
      if (!blocked_) fail(endpoint_.explain(errno));
      return false;
    }
    auto done = static_cast<std::size_t>(result);
    const auto of_header = std::min(done, frame_header_bytes - current.header_sent);
    current.header_sent += of_header;
    done -= of_header;
    if (request != nullptr) {
      current.payload_left -= done;
      request->sent += done;
    }
  }
  if (request != nullptr) request->names_call = false;
  // Its owner may reuse the memory now.
  if (request != nullptr && request->done()) {
    if (request == measured_) end_copies(*request);
    current.stream->requests.pop_front();
  }
  current_.reset();
  return true;
}

ssize_t OutgoingHalf::write_parts(std::span<const iovec> parts, const SendRequest* request) {
  if (request == nullptr || request != measured_) return endpoint_.write(parts, false);
  const auto before = std::chrono::steady_clock::now();
  const auto result = endpoint_.write(parts, streaming_ == Streaming::both);
  copying_ += std::chrono::steady_clock::now() - before;
  return result;
}

/// Classified as a broadcast's root: this rank only writes the ring.
void OutgoingHalf::begin_copies(const SendRequest& request) {
  if (measured_ != nullptr || request.from.size() < CopyChoice::min_bytes) return;
  measured_ = &request;
  copying_ = {};
  streaming_ = copies_->next({Operation::send, true, request.from.size()});
  begun_ = std::chrono::steady_clock::now();
}

void OutgoingHalf::end_copies(const SendRequest& request) {
  measured_ = nullptr;
  const auto bytes = request.from.size();
  const auto all = std::chrono::steady_clock::now() - begun_;
  copies_->took({Operation::send, true, bytes}, streaming_,
                bytes < min_interleaved_bytes ? copying_ : all);
}

bool OutgoingHalf::read() {
  if (is_shared_) return false;
  bool moved = false;
  while (endpoint_ && failure_.empty()) {
    const std::array<iovec, 1> part{
        {{incoming_.data() + incoming_bytes_, frame_header_bytes - incoming_bytes_}}};
    const auto got = endpoint_.read(part, false);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      fail(got == 0 ? "the peer closed the connection" : endpoint_.explain(errno));
      break;
    }
    incoming_bytes_ += static_cast<std::size_t>(got);
    if (incoming_bytes_ < frame_header_bytes) continue;
    incoming_bytes_ = 0;
    const auto frame = decode(incoming_);
    if (!frame || !on_frame(*frame)) {
      fail("malformed frame from the peer");
      break;
    }
    moved = true;
  }
  return moved;
}

bool OutgoingHalf::on_frame(const Frame& frame) {
  if (frame.kind == FrameKind::credit) {
    const auto used = eager_credit(eager_bytes_) - credit_;
    credit_ += std::min<std::uint64_t>(used, frame.position);
    return true;
  }
  if (frame.kind == FrameKind::taken) return on_taken(frame);
  if (frame.kind != FrameKind::clear_to_send || streams_.size() >= max_streams) return false;
  auto& stream = stream_of(frame.call);
  stream.cleared = std::max(stream.cleared, frame.position);
  if (!stream.inspected || stream.call != frame.call) {
    const bool fits = inspector_.on_peer_call(peer_, frame.call);
    // The receiver waits for another call: this rank's data must not fill its buffer.
    if (!fits) stream.cleared = 0;
  }
  return true;
}

bool OutgoingHalf::on_taken(const Frame& frame) {
  const auto found = streams_.find(frame.call.key);
  if (found == streams_.end() || found->second.offered == 0) return false;
  auto& stream = found->second;
  if (frame.position < stream.sent || frame.position - stream.sent > stream.offered) return false;
  const auto taken = frame.position - stream.sent;
  auto& request = *stream.requests.front();
  request.sent += static_cast<std::size_t>(taken);
  stream.sent = frame.position;
  stream.declined |= taken < stream.offered;
  if (frame.payload != 0) {
    pauses_[single_copy_size_class(request.from.size())] = OfferChoice::paused_messages;
  }
  stream.offered = 0;
  if (request.done()) stream.requests.pop_front();
  return true;
}

std::size_t OutgoingHalf::unacknowledged() const {
  int bytes = 0;
  // Data in a ring stays readable for the peer, whatever happens to this rank.
  if (!endpoint_ || endpoint_.has_rings() || !failure_.empty()) return 0;
  return ::ioctl(endpoint_.fd(), SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

void OutgoingHalf::discard_input() {
  // A peer that goes on sending must not keep this rank here.
  constexpr int max_reads = 64;
  std::array<std::byte, 4096> bytes;
  const std::array<iovec, 1> part{{{bytes.data(), bytes.size()}}};
  for (int i = 0; i < max_reads && endpoint_ && endpoint_.read(part, false) > 0; ++i) continue;
}

void OutgoingHalf::shut_down() const {
  if (endpoint_) ::shutdown(endpoint_.fd(), SHUT_WR);
}

}  // namespace tutti::transport
