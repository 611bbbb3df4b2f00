#include "bootstrap/job_secret.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <cerrno>

#include "base/bytes.hpp"
#include "base/system_error.hpp"

namespace tutti::bootstrap {

void draw_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const auto got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw system_error("the kernel gives no random bytes", errno);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

JobSecret JobSecret::draw() {
  JobSecret result;
  draw_random(result.secret_);
  draw_random(result.id_);
  return result;
}

JobSecret JobSecret::share(Bootstrap& bootstrap, Deadline deadline) {
  Bytes message;
  if (bootstrap.rank() == 0) {
    const auto drawn = draw();
    ByteWriter writer;
    writer.put(std::span(drawn.secret_)).put(std::span(drawn.id_));
    message = std::move(writer).bytes();
  }
  message = bootstrap.broadcast(message, 0, deadline);
  JobSecret result;
  ByteReader reader(message);
  reader.get(std::span(result.secret_));
  reader.get(std::span(result.id_));
  const bool whole = reader.ok() && reader.at_end();
  OPENSSL_cleanse(message.data(), message.size());
  if (!whole) {
    throw Error(
        ErrorCode::mismatch,
        fmt::format("rank 0 sent {} bytes where {} of job secret and id were due: the ranks "
                    "run different versions of tutti",
                    message.size(), secret_bytes + id_bytes));
  }
  return result;
}

JobSecret::~JobSecret() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
}

}  // namespace tutti::bootstrap
