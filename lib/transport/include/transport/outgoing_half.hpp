#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/copy_choice.hpp"
#include "base/single_copy_choice.hpp"
#include "transport/frame.hpp"
#include "transport/link_endpoint.hpp"
#include "transport/links.hpp"
#include "transport/request_queue.hpp"
#include "transport/stream_table.hpp"

namespace tutti::transport {

/// The sending half of a link: data frames leave on it, clear-to-send and credit frames return on
/// it.
class OutgoingHalf {
 public:
  OutgoingHalf(int peer, std::size_t eager_bytes, CallInspector& inspector);
  OutgoingHalf(const OutgoingHalf&) = delete;
  OutgoingHalf& operator=(const OutgoingHalf&) = delete;

  void connect(LinkEndpoint endpoint);
  /// For the incoming half of the same connection, which from now on reads for both.
  [[nodiscard]] LinkEndpoint& lend_endpoint();
  /// Sends frames of the incoming half, between frames of this one. Returns true if anything moved.
  bool reply(std::span<const std::byte> frames);
  /// Handles a frame that the incoming half has read for this one. Returns false if it is invalid.
  bool on_reply(const Frame& frame) { return is_over() || on_frame(frame); }
  /// Injected fault: at most `bytes` per write; 0: no limit.
  void limit_writes(std::size_t bytes) { max_written_ = bytes; }
  void fail(std::string reason);
  [[nodiscard]] bool connected() const { return static_cast<bool>(endpoint_); }
  [[nodiscard]] int fd() const { return endpoint_.fd(); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

  void post(SendRequest& request);
  /// Sends a short message into a ring if nothing else of this half is in progress and the credit
  /// suffices. Otherwise sends nothing and returns false.
  bool try_send(const CallContext& call, std::span<const std::byte> bytes);
  void finish(const StreamKey& key);
  /// Drops all requests, whose memory may be gone, and moves no more data.
  void abandon(const std::string& reason);
  [[nodiscard]] bool is_over() const { return !failure_.empty(); }

  /// Both return true if anything moved.
  bool write();
  bool read();
  /// True if write() stopped because the kernel's buffer is full.
  [[nodiscard]] bool wants_to_write() const { return blocked_ && !endpoint_.has_rings(); }
  /// Handles an event of the socket.
  void on_socket_event() {
    if (endpoint_.has_rings()) endpoint_.drain_doorbell();
  }
  [[nodiscard]] bool has_rings() const { return endpoint_.has_rings(); }
  /// True if read() or write() would move something through the rings, which raise no event.
  [[nodiscard]] bool has_ring_work() {
    return !is_over() && (endpoint_.has_input() || (blocked_ && endpoint_.has_space()));
  }
  /// Bytes that the peer's kernel has not acknowledged yet.
  [[nodiscard]] std::size_t unacknowledged() const;
  /// Ends the stream of data: the peer reads an orderly end after all of it.
  void shut_down() const;
  /// Reads and discards what has arrived, at most 256 KiB.
  void discard_input();

 private:
  struct Stream {
    CallContext call;
    RequestQueue<SendRequest> requests;  ///< none of them is done
    std::uint64_t sent = 0;
    std::uint64_t cleared = 0;
    std::uint64_t offered = 0;  ///< bytes that the peer may read; no other frame meanwhile
    bool requested = false;
    bool inspected = false;
    bool declined = false;  ///< an offer; the rest is sent
  };
  struct Current {
    FrameHeader header{};
    std::size_t header_sent = 0;
    Stream* stream = nullptr;  ///< null: a frame without payload; else the front request's stream
    std::size_t payload_left = 0;
  };

  Stream& stream_of(const CallContext& call);
  bool start_next_frame();
  bool start_frame(Stream& stream);
  bool may_offer(const Stream& stream, const SendRequest& request);
  bool send_current();
  bool send_replies();
  ssize_t write_parts(std::span<const iovec> parts, const SendRequest* request);
  void begin_copies(const SendRequest& request);
  void end_copies(const SendRequest& request);
  bool on_frame(const Frame& frame);
  bool on_taken(const Frame& frame);

  int peer_;
  std::size_t eager_bytes_;
  CallInspector& inspector_;
  LinkEndpoint endpoint_;
  std::string failure_;
  StreamTable<Stream> streams_;
  StreamKey last_served_;
  std::optional<Current> current_;
  bool is_shared_ = false;          ///< the incoming half reads the connection
  std::vector<std::byte> replies_;  ///< frames of the incoming half
  std::size_t replies_sent_ = 0;
  std::uint64_t credit_;
  bool blocked_ = false;
  // For longer messages through a ring: how the current one is copied, since when, and the time
  // spent copying.
  std::unique_ptr<CopyChoice> copies_;
  const SendRequest* measured_ = nullptr;
  Streaming streaming_ = Streaming::none;
  std::chrono::steady_clock::time_point begun_{};
  std::chrono::steady_clock::duration copying_{};
  /// By size: messages that are not offered, since the peer does not want to read them.
  std::array<std::uint32_t, single_copy_sizes> pauses_{};
  std::size_t max_written_ = 0;
  FrameHeader incoming_{};
  std::size_t incoming_bytes_ = 0;
};

/// Longer messages are measured to choose their copy.
inline constexpr std::size_t max_bytes_at_once = CopyChoice::min_bytes - 1;

/// Eager bytes in flight on one link without clear-to-send, all streams together.
[[nodiscard]] constexpr std::size_t eager_credit(std::size_t eager_bytes) {
  return 16 * eager_bytes;
}

}  // namespace tutti::transport
