#include "rendezvous/handshake.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/bytes.hpp"
#include "bootstrap/keyed_hash.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::uint32_t hello_magic = 0x49545554;  // "TUTI"
constexpr std::uint16_t version = 1;
constexpr std::size_t key_bytes = 32;
using bootstrap::equal_in_constant_time;
using Mac = bootstrap::Hash;
constexpr std::size_t mac_bytes = bootstrap::hash_bytes;

struct LinkKeys {
  LinkKeys(const Membership& self, int peer);
  [[nodiscard]] std::span<const std::byte> initiator() const {
    return std::span(memory).first(key_bytes);
  }
  [[nodiscard]] std::span<const std::byte> responder() const {
    return std::span(memory).last(key_bytes);
  }
  LinkKeys(const LinkKeys&) = delete;
  LinkKeys& operator=(const LinkKeys&) = delete;
  ~LinkKeys() { ::explicit_bzero(memory.data(), memory.size()); }
  // On the stack like the MACs: a locked page for a key that lives microseconds would be a tenth of
  // a small job's set-up.
  std::array<std::byte, 2 * key_bytes> memory{};
};

/// Equal at both ends.
ByteWriter info_of(std::string_view purpose, const Membership& self, int peer) {
  ByteWriter info;
  info.put(std::as_bytes(std::span(purpose)))
      .put(static_cast<std::uint32_t>(std::min(self.rank, peer)))
      .put(static_cast<std::uint32_t>(std::max(self.rank, peer)))
      .put(self.epoch);
  return info;
}

void derive(const Membership& self, const Bytes& info, std::span<std::byte> out) {
  bootstrap::hkdf_sha256(self.secret.secret(), self.secret.id(), info, out);
}

LinkKeys::LinkKeys(const Membership& self, int peer) {
  derive(self, info_of("tutti link", self, peer).bytes(), memory);
}

Mac initiator_mac(const LinkKeys& keys, const Hello& hello, const Proof& proof) {
  ByteWriter message;
  message.put(static_cast<std::uint8_t>('I'))
      .put(std::span(hello))
      .put(std::span(proof).first(proof_bytes - mac_bytes));
  return bootstrap::hmac_sha256(keys.initiator(), message.bytes());
}

Mac responder_mac(const LinkKeys& keys, const Hello& hello, const Proof& proof) {
  ByteWriter message;
  message.put(static_cast<std::uint8_t>('R')).put(std::span(hello)).put(std::span(proof));
  return bootstrap::hmac_sha256(keys.responder(), message.bytes());
}

}  // namespace

Hello make_hello(const Nonce& nonce) {
  ByteWriter writer;
  writer.put(hello_magic).put(version).put(std::uint16_t{0}).put(std::span(nonce));
  Hello hello{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), hello.begin());
  return hello;
}

std::variant<Proof, Refused> make_proof(const Membership& self, int to, LinkKind kind,
                                        const Hello& hello, const Nonce& nonce) {
  ByteReader reader(hello);
  if (reader.get<std::uint32_t>() != hello_magic)
    return Refused{"it did not send a tutti handshake"};
  if (reader.get<std::uint16_t>() != version)
    return Refused{"it uses another version of the tutti handshake"};
  if (reader.get<std::uint16_t>() != 0) return Refused{"its hello is malformed"};

  ByteWriter writer;
  writer.put(hello_magic)
      .put(version)
      .put(static_cast<std::uint8_t>(kind))
      .put(std::uint8_t{0})
      .put(std::span(self.secret.id()))
      .put(self.epoch)
      .put(static_cast<std::uint32_t>(self.rank))
      .put(static_cast<std::uint32_t>(to))
      .put(std::span(nonce));
  Proof proof{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), proof.begin());
  const auto mac = initiator_mac(LinkKeys(self, to), hello, proof);
  std::copy(mac.begin(), mac.end(), proof.end() - mac_bytes);
  return proof;
}

std::variant<AuthenticatedPeer, Refused> check_proof(const Membership& self, const Hello& hello,
                                                     const Proof& proof) {
  ByteReader reader(proof);
  if (reader.get<std::uint32_t>() != hello_magic)
    return Refused{"it did not send a tutti handshake"};
  if (reader.get<std::uint16_t>() != version)
    return Refused{"it uses another version of the tutti handshake"};
  const auto kind = reader.get<std::uint8_t>();
  const auto zero = reader.get<std::uint8_t>();
  std::array<std::byte, bootstrap::JobSecret::id_bytes> job{};
  reader.get(std::span(job));
  const auto epoch = reader.get<std::uint32_t>();
  const auto from = reader.get<std::uint32_t>();
  const auto to = reader.get<std::uint32_t>();

  if (kind != static_cast<std::uint8_t>(LinkKind::control) &&
      kind != static_cast<std::uint8_t>(LinkKind::data)) {
    return Refused{"it requests an unknown kind of link"};
  }
  if (zero != 0) return Refused{"its proof is malformed"};
  if (!equal_in_constant_time(job, self.secret.id())) return Refused{"it belongs to another job"};
  if (epoch != self.epoch) return Refused{"it belongs to the job before or after a shrink()"};
  if (to != static_cast<std::uint32_t>(self.rank))
    return Refused{"it is addressed to another rank"};
  if (from == static_cast<std::uint32_t>(self.rank)) return Refused{"it claims to be this rank"};
  if (from >= static_cast<std::uint32_t>(self.size))
    return Refused{"it claims a rank out of range"};

  const LinkKeys keys(self, static_cast<int>(from));
  if (!equal_in_constant_time(initiator_mac(keys, hello, proof),
                              std::span(proof).last(mac_bytes))) {
    return Refused{"authentication failed: it does not have the job's secret"};
  }
  return AuthenticatedPeer{static_cast<int>(from), static_cast<LinkKind>(kind),
                           responder_mac(keys, hello, proof)};
}

bool check_answer(const Membership& self, int to, const Hello& hello, const Proof& proof,
                  const Answer& answer) {
  return equal_in_constant_time(responder_mac(LinkKeys(self, to), hello, proof), answer);
}

void derive_key(const Membership& self, int peer, const Hello& hello, const Proof& proof,
                std::span<std::byte> key) {
  auto info = info_of("tutti tls", self, peer);
  derive(self, info.put(std::span(hello)).put(std::span(proof)).bytes(), key);
}

}  // namespace tutti::rendezvous
