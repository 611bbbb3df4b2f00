#include "bootstrap/job_secret.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/bytes.hpp"
#include "base/system_error.hpp"
#include "bootstrap/shared_secret.hpp"

namespace tutti::bootstrap {

void draw_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const auto got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw system_error("getrandom() failed", errno);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

JobSecret::JobSecret(std::span<const std::byte, secret_bytes> secret,
                     const std::array<std::byte, id_bytes>& id)
    : secret_(std::make_shared<SecretMemory>(secret_bytes)), id_(id) {
  std::copy(secret.begin(), secret.end(), secret_->bytes().begin());
}

JobSecret JobSecret::draw() {
  JobSecret result(std::array<std::byte, secret_bytes>{}, {});
  draw_random(result.secret_->bytes());
  draw_random(result.id_);
  return result;
}

JobSecret JobSecret::share(Bootstrap& bootstrap, Deadline deadline, const SharedSecret* shared) {
  Bytes message;
  if (bootstrap.rank() == 0) {
    const auto drawn = draw();
    ByteWriter writer;
    if (shared == nullptr) writer.put(drawn.secret());
    message = std::move(writer.put(drawn.id())).bytes();
  }
  message = bootstrap.broadcast(message, 0, deadline);
  const bool brings_secret = message.size() == secret_bytes + id_bytes;
  if (!brings_secret && message.size() != id_bytes) {
    throw Error(
        ErrorCode::mismatch,
        fmt::format("rank 0 sent {} bytes instead of the {} of a job secret and id: the ranks "
                    "run different versions of tutti",
                    message.size(), secret_bytes + id_bytes));
  }
  std::array<std::byte, id_bytes> id{};
  std::copy(message.end() - id_bytes, message.end(), id.begin());
  if (brings_secret != (shared == nullptr)) {
    auto unmatched = draw();
    unmatched.id_ = id;
    return unmatched;
  }
  if (shared != nullptr) return shared->for_id(id);
  JobSecret result(std::span<const std::byte>(message).first<secret_bytes>(), id);
  OPENSSL_cleanse(message.data(), message.size());
  return result;
}

}  // namespace tutti::bootstrap
