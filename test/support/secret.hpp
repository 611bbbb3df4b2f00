#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/job_secret.hpp"

/// Job secrets with known values.
namespace tutti::test {

/// Gives every rank except 0 the secret and id that it was constructed with.
class SecretBootstrap final : public Bootstrap {
 public:
  explicit SecretBootstrap(Bytes message) : message_(std::move(message)) {}
  [[nodiscard]] int rank() const override { return 1; }
  [[nodiscard]] int size() const override { return 2; }
  [[nodiscard]] std::string source() const override { return "a test"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline) override { return {mine, mine}; }
  Bytes broadcast(const Bytes&, int, Deadline) override { return message_; }
  void barrier(Deadline) override {}

 private:
  Bytes message_;
};

/// The secret's bytes count up from `secret_from`, the id's from `id_from`.
inline bootstrap::JobSecret known_secret(unsigned secret_from = 0, unsigned id_from = 0xF0) {
  Bytes message;
  for (unsigned i = 0; i < bootstrap::JobSecret::secret_bytes; ++i) {
    message.push_back(static_cast<std::byte>(secret_from + i));
  }
  for (unsigned i = 0; i < bootstrap::JobSecret::id_bytes; ++i) {
    message.push_back(static_cast<std::byte>(id_from + i));
  }
  SecretBootstrap bootstrap(std::move(message));
  return bootstrap::JobSecret::share(bootstrap, Deadline::never());
}

}  // namespace tutti::test
