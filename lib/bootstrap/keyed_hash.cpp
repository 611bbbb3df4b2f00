// The first hash through EVP reads OpenSSL's configuration and sorts the names of all its
// algorithms, 2 ms of processor time (docs/decisions/0019-sha256-without-evp.md). SHA256_Init does
// not.
#include "bootstrap/keyed_hash.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

namespace tutti::bootstrap {
namespace {

static_assert(hash_bytes == SHA256_DIGEST_LENGTH);

using Parts = std::initializer_list<std::span<const std::byte>>;
using Block = std::array<std::byte, SHA256_CBLOCK>;

// OPENSSL_SUPPRESS_DEPRECATED would have to precede all OpenSSL headers, which a unity build does
// not guarantee.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
Hash sha256_of(Parts parts) {
  SHA256_CTX context;
  SHA256_Init(&context);
  for (const auto part : parts) SHA256_Update(&context, part.data(), part.size());
  Hash hash;
  SHA256_Final(reinterpret_cast<unsigned char*>(hash.data()), &context);
  OPENSSL_cleanse(&context, sizeof context);
  return hash;
}
#pragma GCC diagnostic pop

void flip(Block& block, std::byte bits) {
  for (auto& byte : block) byte ^= bits;
}

Hash hmac_of(std::span<const std::byte> key, std::span<const std::byte> a,
             std::span<const std::byte> b = {}, std::span<const std::byte> c = {}) {
  constexpr std::byte inner{0x36};
  constexpr std::byte outer{0x5c};
  Block block{};
  if (key.size() > block.size()) {
    auto hashed = sha256(key);
    std::copy(hashed.begin(), hashed.end(), block.begin());
    OPENSSL_cleanse(hashed.data(), hashed.size());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  flip(block, inner);
  auto first = sha256_of({block, a, b, c});
  flip(block, inner ^ outer);
  const auto result = sha256_of({block, first});
  OPENSSL_cleanse(block.data(), block.size());
  OPENSSL_cleanse(first.data(), first.size());
  return result;
}

}  // namespace

Hash sha256(std::span<const std::byte> message) {
  return sha256_of({message});
}

Hash hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  return hmac_of(key, message);
}

void hkdf_sha256(std::span<const std::byte> secret, std::span<const std::byte> salt,
                 std::span<const std::byte> info, std::span<std::byte> out) {
  if (out.size() > UINT8_MAX * hash_bytes)
    throw std::length_error("HKDF output is limited to 255 hashes");
  auto key = hmac_of(salt, secret);
  Hash block{};
  std::span<const std::byte> before;
  for (std::uint8_t number = 1; !out.empty(); ++number) {
    const std::array count{std::byte{number}};
    block = hmac_of(key, before, info, count);
    before = block;
    const auto length = std::min(out.size(), block.size());
    std::copy_n(block.begin(), length, out.begin());
    out = out.subspan(length);
  }
  OPENSSL_cleanse(key.data(), key.size());
  OPENSSL_cleanse(block.data(), block.size());
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti::bootstrap
