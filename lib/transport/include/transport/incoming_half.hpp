#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/single_copy_choice.hpp"
#include "transport/frame.hpp"
#include "transport/incoming_stream.hpp"
#include "transport/link_endpoint.hpp"
#include "transport/links.hpp"
#include "transport/stream_table.hpp"

namespace tutti::transport {

class OutgoingHalf;

/// The receiving half of a link: data frames arrive on it, clear-to-send and credit frames return
/// on it.
class IncomingHalf {
 public:
  IncomingHalf(int peer, std::size_t eager_bytes, CallInspector& inspector);
  IncomingHalf(const IncomingHalf&) = delete;
  IncomingHalf& operator=(const IncomingHalf&) = delete;

  /// The peer connected it.
  void connect(LinkEndpoint endpoint);
  /// Uses the connection of `half`, to the same peer. From now on this half reads it for both, and
  /// `half` writes for both. `half` must outlive this one.
  void share_connection(OutgoingHalf& half);
  /// Injected fault: at most `bytes` per write; 0: no limit.
  void limit_writes(std::size_t bytes) { max_written_ = bytes; }
  [[nodiscard]] bool connected() const { return static_cast<bool>(*endpoint_); }
  [[nodiscard]] int fd() const { return endpoint_->fd(); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

  void post(RecvRequest& request);
  /// Receives a short message out of a ring if it is next, complete, and nothing else of this half
  /// is in progress; otherwise changes nothing. Fails the link if the peer overwrites the data
  /// meanwhile. `call` is the sender's.
  Receipt try_receive(const CallContext& call, std::span<std::byte> bytes);
  /// True if a frame has named the peer's call of this stream.
  [[nodiscard]] bool has_arrived(const StreamKey& key);
  void finish(const StreamKey& key);
  /// Drops all requests, whose memory may be gone, and moves no more data.
  void abandon(const std::string& reason);
  /// True if nothing more will be read.
  [[nodiscard]] bool is_over() const { return mismatched_ || !failure_.empty(); }

  /// Both return true if anything moved.
  bool read();
  bool write();
  [[nodiscard]] bool wants_to_write() const { return blocked_ && !endpoint_->has_rings(); }
  /// Handles an event of the socket.
  void on_socket_event() {
    if (endpoint_->has_rings()) endpoint_->drain_doorbell();
  }
  [[nodiscard]] bool has_rings() const { return endpoint_->has_rings(); }
  /// True if read() or write() would move something through the rings, which raise no event.
  [[nodiscard]] bool has_ring_work() {
    return !is_over() && (endpoint_->has_input() || (blocked_ && endpoint_->has_space()) ||
                          (!offered_.empty() && has_ready_offer()));
  }

 private:
  /// Memory of the peer that holds the next bytes of a stream.
  struct Offer {
    std::uint64_t address = 0;
    std::size_t left = 0;  ///< 0: no offer is open
    /// Once there is a request.
    std::optional<OfferChoice::Answer> answer = std::nullopt;
    // Of the latest answer.
    bool is_timed = false;
    std::size_t bytes = 0;
    std::chrono::steady_clock::time_point begun{};
    std::uint64_t measured_to = 0;  ///< position in the stream, if the sender copies; 0: none
  };
  struct Stream {
    IncomingStream bytes;
    std::optional<CallContext> theirs;  ///< the peer's call, once a frame has named it
    CallContext ours;                   ///< once a request has been posted
    std::uint64_t cleared = 0;
    bool requested = false;
    RecvRequest* empty_request = nullptr;  ///< for a message without bytes
    Offer offer;
  };

  std::size_t fill(bool ahead);
  std::size_t take_from_ring();
  bool negotiate();
  bool take_header();
  bool take_payload();
  bool accept(std::span<const std::byte, frame_header_bytes> header);
  void deliver(std::span<const std::byte> payload);
  bool on_frame(const Frame& frame);
  [[nodiscard]] bool expects_offer(const Stream& stream) const;
  [[nodiscard]] bool has_ready_offer();
  std::size_t take_offered();
  std::size_t take_offered(Stream& stream);
  void lend_memory(IncomingStream& stream);
  void take_memory_back(IncomingStream& stream);
  void clear_if_due(Stream& stream);
  void return_credit(std::size_t bytes);
  void fail(std::string reason);
  void use_endpoint();

  int peer_;
  std::size_t eager_bytes_;
  CallInspector& inspector_;
  LinkEndpoint own_;
  LinkEndpoint* endpoint_ = &own_;
  OutgoingHalf* writer_ = nullptr;  ///< the other half of a shared connection
  std::string failure_;
  std::size_t max_written_ = 0;
  StreamTable<Stream> streams_;
  std::vector<std::byte> staging_;  ///< bytes read and not yet parsed: [staged_begin_, staged_end_)
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  bool is_drained_ = false;         ///< the latest read returned less than it could have
  std::vector<StreamKey> offered_;  ///< streams with an open offer
  OfferChoice offers_;
  std::optional<Frame> frame_;  ///< whose payload is being received
  std::size_t payload_left_ = 0;
  std::size_t buffered_ = 0;                           ///< bytes of eager frames without a request
  std::vector<std::vector<std::byte>> spare_buffers_;  ///< memory for them
  std::size_t credit_to_return_ = 0;
  std::vector<std::byte> outgoing_;
  bool blocked_ = false;
  bool mismatched_ = false;  ///< the peer made another call: its data stays unread
};

}  // namespace tutti::transport
