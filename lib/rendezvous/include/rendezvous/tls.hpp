#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace tutti::rendezvous {

/// True if this build has libssl.
[[nodiscard]] bool has_tls();

/// State shared by all TLS links of a process, created once. Safe for concurrent use.
class TlsContext {
 public:
  /// Throws Error{usage} if this build has no libssl, Error{system} if libssl fails.
  TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

 private:
  friend class Tls;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// TLS 1.3 with a pre-shared key over a connected, non-blocking socket: one cipher suite, an
/// ephemeral Diffie-Hellman exchange, no certificates, no tickets. Not safe for concurrent use.
class Tls {
 public:
  static constexpr std::size_t key_bytes = 32;
  enum class Side : std::uint8_t { initiator, responder };
  enum class Step : std::uint8_t { done, wait, failed };

  struct Settings {
    /// A key is valid for 2^24.5 records (RFC 8446, 5.5). This limit renews it well before.
    std::uint64_t bytes_per_key = std::uint64_t{64} << 30;
  };

  /// `socket` is not owned and must outlive this. Throws Error{system}.
  Tls(std::shared_ptr<const TlsContext> context, int socket, Side side,
      std::span<const std::byte, key_bytes> key, Settings settings);
  Tls(std::shared_ptr<const TlsContext> context, int socket, Side side,
      std::span<const std::byte, key_bytes> key)
      : Tls(std::move(context), socket, side, key, Settings{}) {}
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls();

  /// `wait`: call again when the socket is readable.
  Step handshake();

  /// Like sendmsg() and recvmsg(): bytes, or -1 and errno; EBADMSG if TLS itself failed. After
  /// EAGAIN, write() must be called again with data that starts at the same byte; it may be longer.
  ssize_t write(std::span<const iovec> parts);
  /// `ahead`: may read more from the socket than fits into `parts`. Without it, buffered data is
  /// returned a record at a time, and the socket is not read once has_buffered_data() is false.
  ssize_t read(std::span<const iovec> parts, bool ahead);
  /// True if data, or a failure behind it, was read from the socket but not returned yet; epoll
  /// reports no event for it.
  [[nodiscard]] bool has_buffered_data() const;

  /// Why TLS failed; empty if it did not.
  [[nodiscard]] const std::string& failure() const;

 private:
  friend class TlsContext;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::rendezvous
