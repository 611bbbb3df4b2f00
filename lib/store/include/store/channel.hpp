#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "base/reactor.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::store {

enum class Kind : std::uint8_t {
  join = 1,          ///< member to rank 0: who I am
  contribution = 2,  ///< member to rank 0: my part of an exchange
  result = 3,        ///< rank 0 to member: what came of it
  failure = 4,       ///< rank 0 to member: the job can't be set up, and why
};

enum class Exchange : std::uint8_t { welcome = 0, all_gather = 1, broadcast = 2, barrier = 3 };

struct Message {
  Kind kind = Kind::join;
  Exchange exchange = Exchange::welcome;
  std::uint32_t round = 0;        ///< exchanges are numbered
  std::uint32_t patience_ms = 0;  ///< how long the sender goes on waiting
  Bytes payload;
};

/// Messages over a connected socket whose other end has proven that it is a member. Even so, no
/// length is believed: a message that is longer than allowed ends the channel, and memory grows
/// with what arrives.
class Channel {
 public:
  static constexpr std::size_t header_bytes = 16;
  using OnMessage = std::function<void(Message)>;
  using OnClosed = std::function<void(const std::string& reason)>;

  /// `max_bytes`: of a payload that comes in. The callbacks must not destroy the channel.
  Channel(Reactor& reactor, Descriptor socket, std::size_t max_bytes, OnMessage on_message,
          OnClosed on_closed);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  void send(const Message& message);
  /// The same payload to many costs memory once.
  void send(const Message& header, std::shared_ptr<const Bytes> payload);
  /// True if all that was sent is on its way, or never will be.
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

  Bytes in_;  ///< the header or the payload as far as it has come
  std::size_t due_ = header_bytes;
  bool in_payload_ = false;
  Message incoming_;

  std::deque<std::shared_ptr<const Bytes>> out_;
  std::size_t sent_ = 0;  ///< of the first of `out_`
};

}  // namespace tutti::store
