// Hashes, compared with the standards' test vectors and libcrypto's HMAC and HKDF.
#include "bootstrap/keyed_hash.hpp"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace tutti::bootstrap::test {
namespace {

using Octets = std::vector<std::byte>;

Octets octets(std::string_view hex) {
  Octets result;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    result.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return result;
}

Octets text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters));
  return {bytes.begin(), bytes.end()};
}

Octets of(const Hash& hash) {
  return {hash.begin(), hash.end()};
}

/// Bytes that differ from their neighbours.
Octets some_bytes(std::size_t length, unsigned start) {
  Octets result(length);
  for (std::size_t i = 0; i < length; ++i) result[i] = static_cast<std::byte>(start + 7 * i);
  return result;
}

Octets libcrypto_hkdf(Octets secret, Octets salt, Octets info, std::size_t length) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr), EVP_KDF_free);
  REQUIRE(kdf);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  std::string digest = "SHA256";
  const std::array<OSSL_PARAM, 5> parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  Octets out(length);
  REQUIRE(EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(),
                         parameters.data()) == 1);
  return out;
}

}  // namespace

TEST_CASE("SHA-256 of the standard's example") {
  CHECK(of(sha256(text("abc"))) ==
        octets("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
}

TEST_CASE("HMAC-SHA256 of RFC 4231's cases: a short key, a word, a key longer than a block") {
  CHECK(of(hmac_sha256(Octets(20, std::byte{0x0b}), text("Hi There"))) ==
        octets("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"));
  CHECK(of(hmac_sha256(text("Jefe"), text("what do ya want for nothing?"))) ==
        octets("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
  CHECK(of(hmac_sha256(Octets(131, std::byte{0xaa}),
                       text("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
        octets("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"));
}

TEST_CASE("HMAC-SHA256 equals libcrypto's for keys and messages of all lengths around a block") {
  for (const std::size_t key_length : {1U, 31U, 32U, 63U, 64U, 65U, 200U}) {
    for (const std::size_t length : {0U, 1U, 55U, 56U, 63U, 64U, 65U, 1000U}) {
      const auto key = some_bytes(key_length, 3);
      const auto message = some_bytes(length, 11);
      Hash theirs;
      unsigned int written = 0;
      REQUIRE(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                   reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                   reinterpret_cast<unsigned char*>(theirs.data()), &written) != nullptr);
      CHECK(of(hmac_sha256(key, message)) == of(theirs));
    }
  }
}

TEST_CASE("HKDF-SHA256 of RFC 5869's first case") {
  Octets out(42);
  hkdf_sha256(Octets(22, std::byte{0x0b}), octets("000102030405060708090a0b0c"),
              octets("f0f1f2f3f4f5f6f7f8f9"), out);
  CHECK(out == octets("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b8"
                      "87185865"));
}

TEST_CASE("HKDF-SHA256 equals libcrypto's for lengths around a hash") {
  for (const std::size_t length : {1U, 31U, 32U, 33U, 64U, 65U, 255U * 32U}) {
    const auto secret = some_bytes(32, 5);
    const auto salt = some_bytes(16, 9);
    const auto info = some_bytes(23, 1);
    Octets out(length);
    hkdf_sha256(secret, salt, info, out);
    CHECK(out == libcrypto_hkdf(secret, salt, info, length));
  }
  Octets too_long(255 * hash_bytes + 1);
  CHECK_THROWS_AS(hkdf_sha256(some_bytes(32, 5), {}, {}, too_long), std::length_error);
}

TEST_CASE("a difference at any position or in length is detected") {
  const auto bytes = some_bytes(32, 0);
  CHECK(equal_in_constant_time(bytes, some_bytes(32, 0)));
  CHECK_FALSE(equal_in_constant_time(bytes, some_bytes(31, 0)));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto other = bytes;
    other[i] ^= std::byte{1};
    CHECK_FALSE(equal_in_constant_time(bytes, other));
  }
}

}  // namespace tutti::bootstrap::test
