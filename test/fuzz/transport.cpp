// Data from a peer on a data link.
#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "targets.hpp"
#include "unit/transport/half_pair.hpp"

namespace tutti::fuzz {
namespace {

using transport::test::collective;
using transport::test::message;
using transport::test::Receiving;
using transport::test::Sending;
using transport::test::SocketPair;

constexpr std::size_t eager = 64;
constexpr std::size_t max_input = 32 << 10;  // fits into the socket's buffer

class Inspector final : public transport::CallInspector {
 public:
  explicit Inspector(bool refuses) : refuses_(refuses) {}
  bool on_peer_call(int, const transport::CallContext& theirs) override {
    return !(refuses_ && theirs.key.sequence % 4 == 3);
  }

 private:
  bool refuses_;
};

/// Expands a compact encoding to frames, so the fuzzer need not find 56-byte headers: kind and
/// sequence, position, payload; after 0xFF, raw bytes. With `by_ring` in the format of a ring
/// buffer.
Bytes frames_from(Input input, bool by_ring = false) {
  Bytes wire;
  ByteReader reader(input);
  while (reader.ok() && !reader.at_end() && wire.size() < max_input) {
    const auto kind = reader.get<std::uint8_t>();
    if (kind == 0xFF) {
      for (auto count = reader.get<std::uint8_t>(); count > 0 && reader.ok(); --count) {
        wire.push_back(static_cast<std::byte>(reader.get<std::uint8_t>()));
      }
      continue;
    }
    transport::Frame frame;
    frame.kind = static_cast<transport::FrameKind>(kind % 6);
    const auto sequence = reader.get<std::uint8_t>();
    frame.call = sequence < 200 ? collective(sequence % 8) : message(Operation::send, sequence % 4);
    frame.position = reader.get<std::uint16_t>();
    if ((kind & 0x40U) != 0) frame.position -= 100;
    const auto payload = reader.get<std::uint16_t>() % 2048U;
    frame.payload = payload;
    const auto header = encode(frame);
    if (by_ring) wire.resize(transport::next_line(wire.size()));
    wire.insert(wire.end(), header.begin(), header.end());
    // Sometimes shorter than its length field.
    const auto sent = (kind & 0x80U) != 0 ? payload / 2 : payload;
    wire.resize(wire.size() + sent, static_cast<std::byte>(sequence));
  }
  wire.resize(std::min(wire.size(), max_input));
  return wire;
}

void add(std::byte* to, const std::byte* a, const std::byte* b, std::size_t elements) {
  for (std::size_t i = 0; i < 4 * elements; ++i) {
    to[i] =
        static_cast<std::byte>(std::to_integer<unsigned>(a[i]) + std::to_integer<unsigned>(b[i]));
  }
}

}  // namespace

void frame(Input input) {
  transport::FrameHeader header{};
  std::copy_n(input.begin(), std::min(input.size(), header.size()), header.begin());
  const auto decoded = transport::decode(header);
  if (!decoded) return;
  require(decoded->payload <= transport::max_payload_bytes, "a payload is bounded");
  require(transport::encode(*decoded) == header, "a frame has one form");
  const auto& call = decoded->call.signature;
  require(!describe(call).empty(), "the call of a frame can be told to people");
}

namespace {

/// A segment shared by two ranks. Created once, since that takes a hundred times as long as most
/// inputs.
class Segment {
 public:
  Segment() {
    const auto file = transport::SharedSegment::make_file(2);
    for (int rank = 0; rank < 2; ++rank) {
      Descriptor own(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
      segments_.push_back(std::make_shared<transport::SharedSegment>(std::move(own), rank, 2));
    }
    all_ = map(0);
  }

  /// The link from rank 0 to rank 1 in the mapping of `rank`.
  [[nodiscard]] std::unique_ptr<transport::LinkMemory> map(int rank) const {
    return std::make_unique<transport::LinkMemory>(segments_[static_cast<std::size_t>(rank)], 0, 1);
  }

  /// Restores the initial content.
  void clear() const {
    for (const auto& ring : {all_->data_ring(), all_->reply_ring()}) {
      // The writer wraps around only within the allocated part of the ring.
      const auto used = std::min<std::uint64_t>(ring.state->written, ring.bytes.size());
      std::fill_n(ring.bytes.begin(), used, std::byte{0});
      ring.state->written = 0;
      ring.state->length = 0;
      ring.state->read = 0;
    }
    all_->sender_asleep() = 0;
    all_->receiver_asleep() = 0;
  }

 private:
  std::vector<std::shared_ptr<transport::SharedSegment>> segments_;
  std::unique_ptr<transport::LinkMemory> all_;
};

/// The two ends of a link: a socket or, with shared memory, ring buffers.
class Ends {
 public:
  explicit Ends(bool by_ring) : by_ring_(by_ring) {
    if (!by_ring) return;
    static const Segment segment;
    segment.clear();
    senders_ = segment.map(0);
    receivers_ = segment.map(1);
    data_state_ = receivers_->data_ring().state;
  }

  transport::LinkEndpoint sender() {
    auto socket = rendezvous::SecureSocket::plain(std::move(sockets_.other));
    if (!by_ring_) return {std::move(socket)};
    return transport::LinkEndpoint::dialed(std::move(socket), std::move(senders_));
  }
  transport::LinkEndpoint receiver() {
    auto socket = rendezvous::SecureSocket::plain(std::move(sockets_.one));
    if (!by_ring_) return {std::move(socket)};
    return transport::LinkEndpoint::accepted(std::move(socket), std::move(receivers_));
  }
  /// Sets the length of the sender's ring, which may be wrong.
  void say_length(std::uint64_t length) const { data_state_->length.store(length); }

 private:
  bool by_ring_;
  SocketPair sockets_;
  std::unique_ptr<transport::LinkMemory> senders_;
  std::unique_ptr<transport::LinkMemory> receivers_;
  transport::RingState* data_state_ = nullptr;
};

void put(transport::LinkEndpoint& wire, Input bytes) {
  if (bytes.empty()) return;
  const std::array<iovec, 1> part{{{const_cast<std::byte*>(bytes.data()), bytes.size()}}};
  (void)wire.write(part);
}

void receive(Input input, bool by_ring) {
  if (input.size() < 2) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  const auto ring_choice = std::to_integer<unsigned>(input[1]);
  const auto bytes = frames_from(input.subspan(by_ring ? 2 : 1), by_ring);
  Inspector inspector((choice & 1U) != 0);
  transport::IncomingHalf half(0, eager, inspector);
  Ends ends(by_ring);
  auto peer = ends.sender();
  if ((choice & 128U) != 0) half.limit_writes(5);
  const auto connect = [&] { half.connect(ends.receiver()); };
  if ((choice & 64U) == 0) connect();

  std::deque<Receiving> posted;
  const auto post = [&](std::uint64_t sequence, std::size_t count) {
    auto& receiving = posted.emplace_back(collective(sequence), count);
    receiving.request.awaits_call = count == 0;
    if (sequence == 2) {
      receiving.request.reduce = add;
      receiving.request.combine_with = receiving.bytes.data();
      receiving.request.element_bytes = 4;
    }
    half.post(receiving.request);
  };
  const auto post_all = [&] {
    post(1, 1000);
    post(2, 400);
    post(3, eager);
    post(4, 0);
    post(1, 500);
  };
  if ((choice & 2U) != 0) post_all();
  if ((choice & 64U) != 0) connect();
  const auto cut = (choice & 4U) != 0 ? bytes.size() / 2 : bytes.size();
  put(peer, std::span(bytes).first(cut));
  if (by_ring && (ring_choice & 1U) != 0) ends.say_length(std::uint64_t{1} << (ring_choice >> 2U));
  std::array<std::byte, 100> at_once{};
  if ((ring_choice & 2U) != 0) {
    auto call = message(Operation::send, 1);
    (void)half.try_receive(call, at_once);
    call = collective(1);
    (void)half.try_receive(call, std::span(at_once).first(1 + cut % at_once.size()));
  }
  while (half.read()) {
  }
  if ((choice & 2U) == 0) post_all();
  if ((choice & 8U) != 0) half.finish(collective(3).key);
  put(peer, std::span(bytes).subspan(cut));
  while (half.read()) {
  }
  half.write();
  if ((choice & 16U) != 0) {
    peer = {};
    half.on_socket_event();
    while (half.read()) {
    }
    require(half.is_over(), "the end of a link is noticed");
  }
  for (const auto& receiving : posted) {
    require(receiving.request.received <= receiving.bytes.size(), "no more is taken than asked");
  }
  if ((choice & 32U) != 0) half.abandon("the job is over");
}

}  // namespace

// The first byte selects which receives are posted, and when.
void incoming(Input input) {
  receive(input, false);
}

void ring(Input input) {
  receive(input, true);
}

namespace {

void send(Input input, bool by_ring) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  const auto bytes = frames_from(input.subspan(1));
  Inspector inspector((choice & 1U) != 0);
  transport::OutgoingHalf half(1, eager, inspector);
  Ends ends(by_ring);
  transport::LinkEndpoint peer;
  if ((choice & 128U) != 0) half.limit_writes(5);
  const auto connect = [&] {
    half.connect(ends.sender());
    peer = ends.receiver();
    (void)peer.negotiate();
  };
  // Through a ring a message is sent immediately, within its own credit.
  const Bytes short_message(60);
  const auto send_at_once = [&] {
    for (int i = 0; by_ring && i < 20; ++i) {
      (void)half.try_send(message(Operation::send, 1), short_message);
    }
  };
  if ((choice & 64U) == 0) connect();

  std::deque<Sending> posted;
  const auto post_all = [&] {
    for (const auto& [sequence, count] :
         std::initializer_list<std::pair<std::uint64_t, std::size_t>>{
             {1, 1000}, {2, eager}, {3, eager + 1}, {1, 10}}) {
      half.post(posted.emplace_back(collective(sequence), Bytes(count)).request);
    }
    posted.emplace_back(collective(4), Bytes()).request.names_call = true;
    half.post(posted.back().request);
  };
  if ((choice & 2U) != 0) post_all();
  if ((choice & 64U) != 0) connect();
  send_at_once();
  half.write();
  (void)half.unacknowledged();
  const auto cut = (choice & 4U) != 0 ? bytes.size() / 2 : bytes.size();
  put(peer, std::span(bytes).first(cut));
  half.read();
  half.write();
  if ((choice & 2U) == 0) post_all();
  put(peer, std::span(bytes).subspan(cut));
  half.read();
  while (half.write()) {
  }
  if ((choice & 8U) != 0) half.finish(collective(3).key);
  if ((choice & 16U) != 0) {
    peer = {};
    half.on_socket_event();
    half.read();
    half.write();
    require(half.is_over(), "the end of a link is noticed");
  }
  for (const auto& sending : posted) {
    require(sending.request.sent <= sending.bytes.size(), "no more is sent than there is");
  }
  send_at_once();
  if ((choice & 32U) != 0) half.abandon("the job is over");
}

}  // namespace

void outgoing(Input input) {
  send(input, false);
}

void answers(Input input) {
  send(input, true);
}

// Both halves on one connection, as between hosts: the incoming one reads frames of both.
void shared_link(Input input) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  const auto bytes = frames_from(input.subspan(1));
  Inspector inspector((choice & 1U) != 0);
  transport::OutgoingHalf out(1, eager, inspector);
  transport::IncomingHalf in(1, eager, inspector);
  Ends ends(false);
  auto peer = ends.sender();
  if ((choice & 8U) != 0) out.limit_writes(5);
  out.connect(ends.receiver());
  in.share_connection(out);

  std::deque<Sending> sent;
  std::deque<Receiving> received;
  const auto post_all = [&] {
    for (const auto& [sequence, count] :
         std::initializer_list<std::pair<std::uint64_t, std::size_t>>{
             {1, 1000}, {2, eager + 1}, {3, eager}}) {
      out.post(sent.emplace_back(collective(sequence), Bytes(count)).request);
      in.post(received.emplace_back(collective(sequence), count).request);
    }
  };
  const auto serve = [&] {
    while (in.read()) out.write();
    while (out.write()) continue;
  };
  if ((choice & 2U) != 0) post_all();
  const auto cut = (choice & 4U) != 0 ? bytes.size() / 2 : bytes.size();
  put(peer, std::span(bytes).first(cut));
  serve();
  if ((choice & 2U) == 0) post_all();
  if ((choice & 16U) != 0) out.finish(collective(2).key);
  if ((choice & 32U) != 0) in.finish(collective(2).key);
  put(peer, std::span(bytes).subspan(cut));
  serve();
  if ((choice & 64U) != 0) {
    peer = {};
    serve();
    require(in.is_over(), "the end of a link is noticed");
  }
  for (const auto& one : sent)
    require(one.request.sent <= one.bytes.size(), "no more is sent than there is");
  for (const auto& one : received)
    require(one.request.received <= one.bytes.size(), "no more is taken than asked");
  out.discard_input();
}

}  // namespace tutti::fuzz
