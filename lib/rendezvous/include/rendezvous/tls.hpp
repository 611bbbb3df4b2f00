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

/// True where this build has libssl.
[[nodiscard]] bool has_tls();

/// What all TLS links of a process have in common: made once, and handed on with its membership in
/// the job. Any number of threads may use it at once.
class TlsContext {
 public:
  /// Throws Error{usage} where this build has no libssl, Error{system} where libssl is unusable.
  TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

 private:
  friend class Tls;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// TLS 1.3 by a pre-shared key over a connected, non-blocking socket: one suite, a fresh
/// Diffie-Hellman exchange, no certificates, no tickets. For one thread at a time.
class Tls {
 public:
  static constexpr std::size_t key_bytes = 32;
  enum class Side : std::uint8_t { initiator, responder };
  enum class Step : std::uint8_t { done, wait, failed };

  struct Settings {
    /// A key may serve for 2^24.5 records (RFC 8446, 5.5). A new one comes long before.
    std::uint64_t bytes_per_key = std::uint64_t{64} << 30;
  };

  /// `socket` belongs to somebody else and outlives this. Throws Error{system}.
  Tls(std::shared_ptr<const TlsContext> context, int socket, Side side,
      std::span<const std::byte, key_bytes> key, Settings settings);
  Tls(std::shared_ptr<const TlsContext> context, int socket, Side side,
      std::span<const std::byte, key_bytes> key)
      : Tls(std::move(context), socket, side, key, Settings{}) {}
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls();

  /// `wait`: again when the socket is readable.
  Step shake_hands();

  /// As sendmsg() and recvmsg(): bytes, or -1 and errno; EBADMSG where TLS itself has failed. What
  /// was refused with EAGAIN must be offered again from the same byte on; it may then be longer.
  ssize_t write(std::span<const iovec> parts);
  /// `ahead`: may take more from the socket than fits. Without it what was taken before is handed
  /// out, a record at a time, and the socket is left alone as soon as nothing is held back.
  ssize_t read(std::span<const iovec> parts, bool ahead);
  /// True if bytes have left the socket that nobody has read yet: no event will tell of them.
  [[nodiscard]] bool holds_back() const;

  /// Why TLS has failed; empty while it has not.
  [[nodiscard]] const std::string& trouble() const;

 private:
  friend class TlsContext;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::rendezvous
