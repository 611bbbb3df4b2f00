#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include "bootstrap/job_secret.hpp"

/// Mutual authentication of two processes of a job, before any other data is accepted. Pure
/// functions from bytes to bytes; acceptor.hpp and dialer.hpp do the I/O.
///
///     PRK = HKDF-Extract(job id, secret)
///     K_init ‖ K_resp = HKDF-Expand(PRK, "tutti link" ‖ lo ‖ hi ‖ epoch, 64)
///     responder → initiator   hello:  magic, version, nonce
///     initiator → responder   proof:  magic, version, kind, job id, epoch, from, to, nonce,
///                                     HMAC(K_init, "I" ‖ transcript)
///     responder → initiator   answer: HMAC(K_resp, "R" ‖ transcript ‖ the proof's HMAC)
///
/// The initiator proves first, so an unauthenticated client learns only a nonce. HMAC and HKDF use
/// SHA-256 (RFC 2104, RFC 5869).
///
/// If the job's links are encrypted, TLS 1.3 follows with the initiator as its client and the
/// pre-shared key HKDF-Expand(PRK, "tutti tls" ‖ lo ‖ hi ‖ epoch ‖ hello ‖ proof, 32).
namespace tutti::rendezvous {

class TlsContext;

enum class LinkKind : std::uint8_t { control = 1, data = 2 };

inline constexpr std::size_t hello_bytes = 40;
inline constexpr std::size_t proof_bytes = 100;
inline constexpr std::size_t answer_bytes = 32;
inline constexpr std::size_t nonce_bytes = 32;

using Hello = std::array<std::byte, hello_bytes>;
using Proof = std::array<std::byte, proof_bytes>;
using Answer = std::array<std::byte, answer_bytes>;
using Nonce = std::array<std::byte, nonce_bytes>;

/// This process's identity in its job.
struct Membership {
  bootstrap::JobSecret secret;
  std::uint32_t epoch =
      0;  ///< incremented by each shrink, so that links of the old job are rejected
  int rank = 0;
  int size = 1;
  /// Set on all ranks or on none: TLS follows the handshake.
  std::shared_ptr<const TlsContext> tls = nullptr;
};

struct AuthenticatedPeer {
  int from = -1;
  LinkKind kind = LinkKind::control;
  Answer answer{};
};

struct Refused {
  std::string_view reason;
};

[[nodiscard]] Hello make_hello(const Nonce& nonce);

/// Returns the initiator's proof to rank `to`, or Refused if `hello` does not start a handshake of
/// this version.
[[nodiscard]] std::variant<Proof, Refused> make_proof(const Membership& self, int to, LinkKind kind,
                                                      const Hello& hello, const Nonce& nonce);

/// The responder's check of a proof against the hello that it sent on the same connection.
[[nodiscard]] std::variant<AuthenticatedPeer, Refused> check_proof(const Membership& self,
                                                                   const Hello& hello,
                                                                   const Proof& proof);

/// The initiator's check that the answer comes from rank `to`.
[[nodiscard]] bool check_answer(const Membership& self, int to, const Hello& hello,
                                const Proof& proof, const Answer& answer);

/// Derives the 32-byte TLS key of this connection, known only to its two ends.
void derive_key(const Membership& self, int peer, const Hello& hello, const Proof& proof,
                std::span<std::byte> key);

}  // namespace tutti::rendezvous
