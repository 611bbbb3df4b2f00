#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include "bootstrap/job_secret.hpp"

/// How two processes prove to each other that they belong to the same job before anything else is
/// believed. Pure functions from bytes to bytes; who moves them is in acceptor.hpp and dialer.hpp.
///
///     PRK = HKDF-Extract(job id, secret)
///     K_init ‖ K_resp = HKDF-Expand(PRK, "tutti link" ‖ lo ‖ hi ‖ epoch, 64)
///     responder → initiator   hello:  magic, version, nonce
///     initiator → responder   proof:  magic, version, kind, job id, epoch, from, to, nonce,
///     HMAC(K_init, "I" ‖ transcript) responder → initiator   answer: HMAC(K_resp, "R" ‖ transcript
///     ‖ the proof's HMAC)
///
/// The initiator proves first, so a stranger that connects learns nothing but a nonce. HMAC and
/// HKDF are SHA-256 (RFC 2104, RFC 5869).
///
/// Where the job's links are encrypted, TLS 1.3 follows, the initiator being its client, by the key
/// HKDF-Expand(PRK, "tutti tls" ‖ lo ‖ hi ‖ epoch ‖ hello ‖ proof, 32).
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

/// Who this process is in its job.
struct Membership {
  bootstrap::JobSecret secret;
  std::uint32_t epoch =
      0;  ///< grows when the job shrinks, so that links of the old job are refused
  int rank = 0;
  int size = 1;
  /// Set on all ranks or on none: what follows the handshake is TLS.
  std::shared_ptr<const TlsContext> tls = nullptr;
};

struct Introduced {
  int from = -1;
  LinkKind kind = LinkKind::control;
  Answer answer{};
};

struct Refused {
  std::string_view reason;
};

[[nodiscard]] Hello make_hello(const Nonce& nonce);

/// The initiator's proof to rank `to`; Refused where `hello` is not the start of a handshake of
/// this version.
[[nodiscard]] std::variant<Proof, Refused> make_proof(const Membership& self, int to, LinkKind kind,
                                                      const Hello& hello, const Nonce& nonce);

/// The responder's check of a proof against the hello that it sent itself on this very connection.
[[nodiscard]] std::variant<Introduced, Refused> check_proof(const Membership& self,
                                                            const Hello& hello, const Proof& proof);

/// The initiator's check that the answer comes from rank `to`.
[[nodiscard]] bool check_answer(const Membership& self, int to, const Hello& hello,
                                const Proof& proof, const Answer& answer);

/// The key of what follows: of this very connection, known to its two ends and to no other. Into
/// 32 bytes.
void derive_key(const Membership& self, int peer, const Hello& hello, const Proof& proof,
                std::span<std::byte> key);

}  // namespace tutti::rendezvous
