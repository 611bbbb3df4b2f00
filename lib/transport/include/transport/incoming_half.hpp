#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/frame.hpp"
#include "transport/incoming_stream.hpp"
#include "transport/link_endpoint.hpp"
#include "transport/links.hpp"
#include "transport/stream_table.hpp"

namespace tutti::transport {

/// The receiving half of a link: the peer dialed it, data frames come by it, clears and credit go
/// back by it.
class IncomingHalf {
 public:
  IncomingHalf(int peer, std::size_t eager_bytes, CallInspector& inspector);

  void connect(LinkEndpoint endpoint);
  /// A fault on purpose: at most so many bytes a write; 0: no limit.
  void limit_writes(std::size_t bytes) { max_written_ = bytes; }
  [[nodiscard]] bool connected() const { return static_cast<bool>(endpoint_); }
  [[nodiscard]] int fd() const { return endpoint_.fd(); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

  void post(RecvRequest& request);
  /// Takes a short message out of a ring, where it is the next there, whole, and nothing else of
  /// this half is on its way. Else nothing has happened, but where the peer has taken bytes back,
  /// which fails the link. `call` is the sender's.
  Receipt try_receive(const CallContext& call, std::span<std::byte> bytes);
  void finish(const StreamKey& key);
  /// Forgets all requests, whose memory may be gone; nothing is moved any more.
  void abandon(const std::string& reason);
  /// True if nothing more will be read.
  [[nodiscard]] bool is_over() const { return contradicted_ || !failure_.empty(); }

  /// Both return true if anything moved.
  bool read();
  bool write();
  [[nodiscard]] bool wants_to_write() const { return blocked_ && !endpoint_.has_rings(); }
  /// Something is ready on the socket.
  void on_socket_event() {
    if (endpoint_.has_rings()) endpoint_.drain_doorbell();
  }
  [[nodiscard]] bool has_rings() const { return endpoint_.has_rings(); }
  /// With rings, which no event tells of: read() or write() would move something.
  [[nodiscard]] bool has_ring_work() {
    return !is_over() && (endpoint_.has_input() || (blocked_ && endpoint_.has_space()));
  }

 private:
  struct Stream {
    IncomingStream bytes;
    std::optional<CallContext> theirs;  ///< the peer's call, once a frame has named it
    CallContext ours;                   ///< once a request has been posted
    std::uint64_t cleared = 0;
    bool wanted = false;
    RecvRequest* empty_request = nullptr;  ///< for a message without bytes
  };

  std::size_t fill(bool ahead);
  std::size_t take_from_ring();
  bool settle();
  bool take_header();
  bool take_payload();
  bool accept(std::span<const std::byte, frame_header_bytes> header);
  void deliver(std::span<const std::byte> payload);
  bool on_frame(const Frame& frame);
  void clear_if_due(Stream& stream);
  void return_credit(std::size_t bytes);
  void fail(std::string reason);

  int peer_;
  std::size_t eager_bytes_;
  CallInspector& inspector_;
  LinkEndpoint endpoint_;
  std::string failure_;
  std::size_t max_written_ = 0;
  StreamTable<Stream> streams_;
  std::vector<std::byte>
      staging_;  ///< bytes read and not yet looked at: [staged_begin_, staged_end_)
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  std::optional<Frame> frame_;  ///< whose payload is coming
  std::size_t payload_left_ = 0;
  std::size_t kept_ = 0;  ///< bytes of eager frames that no request has taken
  std::size_t credit_to_return_ = 0;
  std::vector<std::byte> outgoing_;
  bool blocked_ = false;
  bool contradicted_ = false;  ///< the peer made another call: its data is left alone
};

}  // namespace tutti::transport
