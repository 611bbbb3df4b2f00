#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "transport/incoming_half.hpp"
#include "transport/outgoing_half.hpp"

/// Shared by the tests of the two halves of a link.
namespace tutti::transport::test {

using Buffer = std::vector<std::byte>;

inline Buffer pattern(std::size_t count, unsigned salt = 0) {
  Buffer bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 131 + (i >> 8) + salt);
  }
  return bytes;
}

struct SocketPair {
  Descriptor one;
  Descriptor other;

  explicit SocketPair(int buffer_bytes = 0) {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
      throw std::runtime_error("no socketpair");
    }
    one = Descriptor(fds[0]);
    other = Descriptor(fds[1]);
    if (buffer_bytes == 0) return;
    for (const int fd : fds) {
      ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
      ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    }
  }

  /// Shrinks the send buffer of `one`, so that its data must be read soon.
  void limit_sending() const {
    const int min = 1;  // the kernel raises it to its minimum
    ::setsockopt(one.get(), SOL_SOCKET, SO_SNDBUF, &min, sizeof min);
  }
};

/// Records the calls that it inspects, and answers as the test wants.
class RecordingInspector final : public CallInspector {
 public:
  struct Inspected {
    int peer;
    CallContext call;
  };
  std::function<bool(const CallContext&)> accepts = [](const CallContext&) { return true; };
  std::vector<Inspected> inspected;

  bool on_peer_call(int peer, const CallContext& theirs) override {
    inspected.push_back({peer, theirs});
    return accepts(theirs);
  }
};

inline CallContext collective(std::uint64_t sequence, std::uint64_t count = 0) {
  return {.key = {.sequence = sequence},
          .signature = {Operation::broadcast, Type::u8, Operator::sum, 0, count},
          .fingerprint = sequence};
}

inline CallContext message(Operation operation, std::uint32_t tag, std::uint64_t sequence = 1) {
  return {.key = {.kind = StreamKind::message, .tag = tag, .sequence = sequence},
          .signature = {operation, Type::u8, Operator::sum, 0, 0}};
}

/// A send in progress, with its call.
struct Sending {
  CallContext call;
  Buffer bytes;
  SendRequest request;

  Sending(const CallContext& context, Buffer content) : call(context), bytes(std::move(content)) {
    request = {.peer = 1, .call = &call, .from = bytes};
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;
};

struct Receiving {
  CallContext call;
  Buffer bytes;
  RecvRequest request;

  Receiving(const CallContext& context, std::size_t count) : call(context), bytes(count) {
    request.peer = 0;
    request.call = &call;
    request.to = bytes;
  }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;
};

/// Both halves of a link from rank 0 to rank 1, in one thread; by default over a real socket.
struct HalfPair {
  std::size_t eager_bytes;
  RecordingInspector at_sender;
  RecordingInspector at_receiver;
  OutgoingHalf out{1, eager_bytes, at_sender};
  IncomingHalf in{0, eager_bytes, at_receiver};

  explicit HalfPair(std::size_t eager, int buffer_bytes = 0) : eager_bytes(eager) {
    SocketPair pair(buffer_bytes);
    out.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
    in.connect(rendezvous::SecureSocket::plain(std::move(pair.other)));
  }

  HalfPair(std::size_t eager, LinkEndpoint senders, LinkEndpoint receivers) : eager_bytes(eager) {
    out.connect(std::move(senders));
    in.connect(std::move(receivers));
  }

  void pump() {
    bool moved = true;
    while (moved) {
      moved = out.write();
      moved |= in.read();
      moved |= in.write();
      moved |= out.read();
    }
  }
  [[nodiscard]] bool is_sound() const { return out.failure().empty() && in.failure().empty(); }
};

/// A peer whose bytes the test writes.
class RawPeer {
 public:
  explicit RawPeer(Descriptor socket) : socket_(std::move(socket)) {}

  void write(std::span<const std::byte> bytes) {
    if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("the test's own socket takes no more");
    }
  }
  void write(const Frame& frame, std::span<const std::byte> payload = {}) {
    write(encode(frame));
    write(payload);
  }
  void write(const FrameHeader& header) { write(std::span<const std::byte>(header)); }

  /// All complete frames that have arrived, without payloads.
  std::vector<Frame> read_headers() {
    std::vector<Frame> frames;
    FrameHeader header;
    while (::recv(socket_.get(), header.data(), header.size(), MSG_DONTWAIT) ==
           static_cast<ssize_t>(header.size())) {
      frames.push_back(decode(header).value());
    }
    return frames;
  }
  Buffer read(std::size_t max) {
    Buffer bytes(max);
    const auto got = ::recv(socket_.get(), bytes.data(), max, MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  void close() { socket_.reset(); }

 private:
  Descriptor socket_;
};

}  // namespace tutti::transport::test
