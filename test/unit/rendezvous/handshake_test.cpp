// Mutual authentication of two processes of a job.
#include "rendezvous/handshake.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <string>

#include "base/bytes.hpp"
#include "support/catch.hpp"
#include "support/secret.hpp"

namespace tutti::rendezvous::test {

namespace {

using tutti::test::known_secret;

// Offsets of a proof's fields.
constexpr std::size_t version_at = 4;
constexpr std::size_t kind_at = 6;
constexpr std::size_t zero_at = 7;
constexpr std::size_t job_at = 8;
constexpr std::size_t epoch_at = 24;
constexpr std::size_t from_at = 28;
constexpr std::size_t to_at = 32;
constexpr std::size_t nonce_at = 36;
constexpr std::size_t mac_at = 68;

Membership member(int rank, int size = 8, std::uint32_t epoch = 7) {
  return {.secret = known_secret(), .epoch = epoch, .rank = rank, .size = size};
}

Nonce nonce_from(unsigned first) {
  Nonce nonce{};
  for (std::size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(first + i);
  return nonce;
}

Proof proof_of(const Membership& self, int to, const Hello& hello, LinkKind kind = LinkKind::data) {
  return std::get<Proof>(make_proof(self, to, kind, hello, nonce_from(0x80)));
}

/// The reason of the rejection; empty if the proof is accepted.
std::string refusal(const Membership& self, const Hello& hello, const Proof& proof) {
  const auto checked = check_proof(self, hello, proof);
  const auto* refused = std::get_if<Refused>(&checked);
  return refused != nullptr ? std::string(refused->reason) : std::string();
}

Answer answer_of(const Membership& self, const Hello& hello, const Proof& proof) {
  return std::get<AuthenticatedPeer>(check_proof(self, hello, proof)).answer;
}

template <std::size_t N>
void flip(std::array<std::byte, N>& bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

const Membership initiator = member(5);
const Membership responder = member(2);
const Hello hello = make_hello(nonce_from(0x40));

}  // namespace

TEST_CASE("two members of a job authenticate each other") {
  for (const auto kind : {LinkKind::control, LinkKind::data}) {
    const auto proof = proof_of(initiator, 2, hello, kind);
    const auto checked = check_proof(responder, hello, proof);
    REQUIRE(std::holds_alternative<AuthenticatedPeer>(checked));
    const auto& authenticated = std::get<AuthenticatedPeer>(checked);
    CHECK(authenticated.from == 5);
    CHECK(authenticated.kind == kind);
    CHECK(check_answer(initiator, 2, hello, proof, authenticated.answer));
  }
}

TEST_CASE("every pair of ranks works, both ways") {
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) {
      if (from == to) continue;
      const auto proof = proof_of(member(from), to, hello);
      REQUIRE(refusal(member(to), hello, proof).empty());
      REQUIRE(check_answer(member(from), to, hello, proof, answer_of(member(to), hello, proof)));
    }
  }
}

TEST_CASE("a change of any bit of a proof is detected") {
  const auto proof = proof_of(initiator, 2, hello);
  for (std::size_t bit = 0; bit < 8 * proof_bytes; ++bit) {
    auto spoiled = proof;
    flip(spoiled, bit);
    INFO("bit " << bit);
    REQUIRE(!refusal(responder, hello, spoiled).empty());
  }
}

TEST_CASE("a change of any bit of a hello is detected") {
  for (std::size_t bit = 0; bit < 8 * hello_bytes; ++bit) {
    auto spoiled = hello;
    flip(spoiled, bit);
    const auto made = make_proof(initiator, 2, LinkKind::data, spoiled, nonce_from(0x80));
    INFO("bit " << bit);
    // Rejected by the initiator, or else by the responder, which compares it with its own hello.
    if (const auto* proof = std::get_if<Proof>(&made)) {
      REQUIRE(!refusal(responder, hello, *proof).empty());
    }
  }
}

TEST_CASE("a change of any bit of an answer or of the proof that it answers is detected") {
  const auto proof = proof_of(initiator, 2, hello);
  const auto answer = answer_of(responder, hello, proof);
  REQUIRE(check_answer(initiator, 2, hello, proof, answer));
  for (std::size_t bit = 0; bit < 8 * answer_bytes; ++bit) {
    auto spoiled = answer;
    flip(spoiled, bit);
    REQUIRE(!check_answer(initiator, 2, hello, proof, spoiled));
  }
  for (std::size_t bit = 0; bit < 8 * proof_bytes; ++bit) {
    auto spoiled = proof;
    flip(spoiled, bit);
    REQUIRE(!check_answer(initiator, 2, hello, spoiled, answer));
  }
  for (std::size_t bit = 0; bit < 8 * hello_bytes; ++bit) {
    auto spoiled = hello;
    flip(spoiled, bit);
    REQUIRE(!check_answer(initiator, 2, spoiled, proof, answer));
  }
}

TEST_CASE("a process without the secret is rejected at both ends") {
  auto outsider = initiator;
  outsider.secret = known_secret(1);  // the same job id
  CHECK(refusal(responder, hello, proof_of(outsider, 2, hello)) ==
        "authentication failed: it does not have the job's secret");
  const auto proof = proof_of(initiator, 2, hello);
  auto false_responder = responder;
  false_responder.secret = known_secret(1);
  CHECK(!refusal(false_responder, hello, proof).empty());
  CHECK(!check_answer(initiator, 2, hello, proof, Answer{}));
}

TEST_CASE("members with another job, epoch, target or rank are rejected with the reason") {
  const auto refused = [](const Membership& self, int to) {
    return refusal(responder, hello, proof_of(self, to, hello));
  };
  auto other_job = initiator;
  other_job.secret = known_secret(0, 0xE0);
  CHECK(refused(other_job, 2) == "it belongs to another job");
  CHECK(refused(member(5, 8, 6), 2) == "it belongs to the job before or after a shrink()");
  CHECK(refused(member(5, 8, 8), 2) == "it belongs to the job before or after a shrink()");
  CHECK(refused(initiator, 3) == "it is addressed to another rank");
  CHECK(refused(member(2), 2) == "it claims to be this rank");
  CHECK(refused(member(8, 9), 2) == "it claims a rank out of range");
  CHECK(refused(member(-1), 2) == "it claims a rank out of range");
  CHECK(refused(member(7), 2).empty());
}

TEST_CASE("an unknown kind of link is rejected even with a valid proof") {
  for (const unsigned kind : {0U, 3U, 255U}) {
    const auto proof = proof_of(initiator, 2, hello, static_cast<LinkKind>(kind));
    CHECK(refusal(responder, hello, proof) == "it requests an unknown kind of link");
  }
}

TEST_CASE("a changed field is rejected with its reason") {
  const auto with = [](std::size_t at, unsigned value) {
    auto proof = proof_of(initiator, 2, hello);
    proof[at] = static_cast<std::byte>(value);
    return refusal(responder, hello, proof);
  };
  CHECK(with(0, 0) == "it did not send a tutti handshake");
  CHECK(with(version_at, 2) == "it uses another version of the tutti handshake");
  CHECK(with(kind_at, 9) == "it requests an unknown kind of link");
  CHECK(with(zero_at, 1) == "its proof is malformed");
  CHECK(with(job_at, 0) == "it belongs to another job");
  CHECK(with(epoch_at, 8) == "it belongs to the job before or after a shrink()");
  CHECK(with(to_at, 3) == "it is addressed to another rank");
  CHECK(with(from_at, 2) == "it claims to be this rank");
  CHECK(with(from_at, 8) == "it claims a rank out of range");
  // These are rejected only by the MAC.
  const std::string no_secret = "authentication failed: it does not have the job's secret";
  CHECK(with(from_at, 4) == no_secret);
  CHECK(with(kind_at, static_cast<unsigned>(LinkKind::control)) == no_secret);
  CHECK(with(nonce_at, 0) == no_secret);
  CHECK(with(mac_at, 0) == no_secret);
}

TEST_CASE("a malformed hello is rejected by the initiator with the reason") {
  const auto with = [](std::size_t at, unsigned value) {
    auto spoiled = hello;
    spoiled[at] = static_cast<std::byte>(value);
    const auto made = make_proof(initiator, 2, LinkKind::data, spoiled, nonce_from(0));
    const auto* refused = std::get_if<Refused>(&made);
    return refused != nullptr ? std::string(refused->reason) : std::string();
  };
  CHECK(with(0, 'H') == "it did not send a tutti handshake");
  CHECK(with(version_at, 2) == "it uses another version of the tutti handshake");
  CHECK(with(6, 1) == "its hello is malformed");
}

TEST_CASE("a recorded proof is rejected on another connection") {
  const auto recorded = proof_of(initiator, 2, hello);
  REQUIRE(refusal(responder, hello, recorded).empty());
  const auto fresh = make_hello(nonce_from(0x41));
  CHECK(refusal(responder, fresh, recorded) ==
        "authentication failed: it does not have the job's secret");
}

TEST_CASE("a recorded answer is rejected for another proof") {
  const auto recorded = answer_of(responder, hello, proof_of(initiator, 2, hello));
  const auto fresh =
      std::get<Proof>(make_proof(initiator, 2, LinkKind::data, hello, nonce_from(0x81)));
  CHECK(!check_answer(initiator, 2, hello, fresh, recorded));
}

TEST_CASE("a rank's own messages reflected to it are rejected") {
  // An attacker between rank 5's dialer and rank 5's own acceptor relays rank 5's hello to its
  // dialer and the resulting proof back to its acceptor.
  const auto own_hello = make_hello(nonce_from(0x10));
  const auto own_proof = proof_of(initiator, 2, own_hello);
  CHECK(!refusal(initiator, own_hello, own_proof).empty());
  // The same with the two ranks swapped.
  auto swapped = own_proof;
  std::swap_ranges(swapped.begin() + from_at, swapped.begin() + to_at, swapped.begin() + to_at);
  CHECK(refusal(initiator, own_hello, swapped) ==
        "authentication failed: it does not have the job's secret");

  // The hello as a proof, and the proof's MAC as an answer.
  Proof reflected{};
  std::copy(hello.begin(), hello.end(), reflected.begin());
  CHECK(!refusal(responder, hello, reflected).empty());
  const auto proof = proof_of(initiator, 2, hello);
  Answer echoed{};
  std::copy(proof.begin() + mac_at, proof.end(), echoed.begin());
  CHECK(!check_answer(initiator, 2, hello, proof, echoed));

  // The answer as a proof.
  auto answered = proof;
  const auto answer = answer_of(responder, hello, proof);
  std::copy(answer.begin(), answer.end(), answered.begin() + mac_at);
  CHECK(!refusal(responder, hello, answered).empty());
}

TEST_CASE("an answer is accepted only from the rank that was dialed") {
  // Rank 3 is a member too but must not answer for rank 2.
  const auto proof = proof_of(initiator, 2, hello);
  const auto answer = answer_of(responder, hello, proof);
  CHECK(check_answer(initiator, 2, hello, proof, answer));
  CHECK(!check_answer(initiator, 3, hello, proof, answer));
}

namespace {

using Hash = std::array<std::byte, 32>;

Hash sha256(const Bytes& message) {
  Hash hash{};
  unsigned length = 0;
  REQUIRE(EVP_Digest(message.data(), message.size(), reinterpret_cast<unsigned char*>(hash.data()),
                     &length, EVP_sha256(), nullptr) == 1);
  return hash;
}

template <class... Parts>
Bytes joined(const Parts&... parts) {
  Bytes result;
  (result.insert(result.end(), std::begin(parts), std::end(parts)), ...);
  return result;
}

Bytes text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters));
  return {bytes.begin(), bytes.end()};
}

/// RFC 2104, for keys of up to one block.
Hash plain_hmac(const Bytes& key, const Bytes& message) {
  Bytes inner(64, std::byte{0x36});
  Bytes outer(64, std::byte{0x5C});
  for (std::size_t i = 0; i < key.size(); ++i) {
    inner[i] ^= key[i];
    outer[i] ^= key[i];
  }
  return sha256(joined(outer, sha256(joined(inner, message))));
}

/// RFC 5869, 64 bytes.
Bytes plain_hkdf(const Bytes& salt, const Bytes& key, const Bytes& info) {
  const auto extracted = plain_hmac(salt, key);
  const Bytes prk(extracted.begin(), extracted.end());
  const auto first = plain_hmac(prk, joined(info, Bytes{std::byte{1}}));
  const auto second = plain_hmac(prk, joined(first, info, Bytes{std::byte{2}}));
  return joined(first, second);
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (const auto byte : bytes) {
    result += digits[static_cast<std::size_t>(byte >> 4)];
    result += digits[static_cast<std::size_t>(byte & std::byte{15})];
  }
  return result;
}

}  // namespace

TEST_CASE("the test's own HKDF is that of RFC 5869, appendix A.1") {
  Bytes salt;
  Bytes info;
  for (unsigned i = 0; i <= 0x0C; ++i) salt.push_back(static_cast<std::byte>(i));
  for (unsigned i = 0xF0; i <= 0xF9; ++i) info.push_back(static_cast<std::byte>(i));
  const auto key = plain_hkdf(salt, Bytes(22, std::byte{0x0B}), info);
  CHECK(hex(std::span(key).first(42)) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST_CASE("proof and answer follow the documented formulas") {
  const auto secret = known_secret();
  const Bytes job(secret.id().begin(), secret.id().end());
  const auto keys = plain_hkdf(job, joined(secret.secret()),
                               joined(text("tutti link"), text({"\2\0\0\0\5\0\0\0\7\0\0\0", 12})));
  const Bytes initiator_key(keys.begin(), keys.begin() + 32);
  const Bytes responder_key(keys.begin() + 32, keys.end());

  const auto expected_hello = joined(text({"TUTI\1\0\0\0", 8}), nonce_from(0x40));
  CHECK(Bytes(hello.begin(), hello.end()) == expected_hello);
  const auto body = joined(text({"TUTI\1\0\2\0", 8}), job, text({"\7\0\0\0\5\0\0\0\2\0\0\0", 12}),
                           nonce_from(0x80));
  const auto proof = proof_of(initiator, 2, hello);
  const auto expected_proof =
      joined(body, plain_hmac(initiator_key, joined(text("I"), expected_hello, body)));
  CHECK(Bytes(proof.begin(), proof.end()) == expected_proof);
  CHECK(answer_of(responder, hello, proof) ==
        plain_hmac(responder_key, joined(text("R"), expected_hello, expected_proof)));
}

TEST_CASE("the wire format is unchanged") {
  // Computed with Python's hmac and hashlib. If this changes, the protocol's version must change.
  const auto proof = proof_of(initiator, 2, hello);
  CHECK(hex(hello) ==
        "5455544901000000404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f");
  CHECK(hex(std::span(proof).subspan(mac_at)) ==
        "51643d5706a05c7ee6dd47721e0bda73b2feca072418cddda9ce5cdd6ca0dcf7");
  CHECK(hex(answer_of(responder, hello, proof)) ==
        "230572124269065f1a08d72216486bb58cef98725433e7fdd5f5d9315024bdf6");
}

}  // namespace tutti::rendezvous::test
