#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "base/reactor.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::store {

enum class StoreMessageKind : std::uint8_t {
  join = 1,          ///< member to rank 0: identity and job size
  contribution = 2,  ///< member to rank 0: its part of an operation
  result = 3,        ///< rank 0 to member: the result
  failure = 4,       ///< rank 0 to member: set-up failed, with the error
};

enum class StoreOperation : std::uint8_t {
  welcome = 0,
  all_gather = 1,
  broadcast = 2,
  barrier = 3
};

struct StoreMessage {
  StoreMessageKind kind = StoreMessageKind::join;
  StoreOperation operation = StoreOperation::welcome;
  std::uint32_t round = 0;       ///< number of the operation
  std::uint32_t timeout_ms = 0;  ///< remaining time of the sender's deadline
  Bytes payload;
};

/// Messages over a socket to an authenticated member. Lengths are still not trusted: an oversized
/// message closes the channel, and memory grows only with received data.
class Channel {
 public:
  static constexpr std::size_t header_bytes = 16;
  using OnMessage = std::function<void(StoreMessage)>;
  using OnClosed = std::function<void(const std::string& reason)>;

  /// `max_bytes`: maximum size of a received payload. The callbacks must not destroy the channel.
  Channel(Reactor& reactor, Descriptor socket, std::size_t max_bytes, OnMessage on_message,
          OnClosed on_closed);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  void send(const StoreMessage& message);
  /// Sends a payload that is shared between several channels.
  void send(const StoreMessage& header, std::shared_ptr<const Bytes> payload);
  /// True if all data was passed to the kernel, or the channel is closed.
  [[nodiscard]] bool flushed() const { return closed_ || out_.empty(); }

 private:
  void on_ready(std::uint32_t events);
  void receive();
  bool take_header();
  void flush();
  [[nodiscard]] ssize_t write_some() const;
  void close(const std::string& reason);

  Reactor& reactor_;
  Descriptor socket_;
  std::size_t max_bytes_;
  OnMessage on_message_;
  OnClosed on_closed_;
  bool closed_ = false;
  bool wants_write_ = false;

  Bytes in_;  ///< the received part of the header or payload
  std::size_t due_ = header_bytes;
  bool in_payload_ = false;
  StoreMessage incoming_;

  std::deque<std::shared_ptr<const Bytes>> out_;
  std::size_t sent_ = 0;  ///< number of bytes sent of out_.front()
};

}  // namespace tutti::store
