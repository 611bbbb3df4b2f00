#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/secret_memory.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::bootstrap {

class SharedSecret;

/// What every member of a job holds and nobody else: it proves membership. Copies share one place
/// in memory, which no core file holds and which is wiped when the last of them goes.
class JobSecret {
 public:
  static constexpr std::size_t secret_bytes = 32;
  static constexpr std::size_t id_bytes = 16;

  /// Copies `secret`; the caller wipes its own.
  JobSecret(std::span<const std::byte, secret_bytes> secret,
            const std::array<std::byte, id_bytes>& id);

  /// Random from the kernel. Throws Error{system}.
  static JobSecret draw();
  /// Rank 0 draws it and the bootstrap hands it round. Where the ranks have been given a `shared`
  /// secret, only the id travels. A rank that was given one where rank 0 was not, or the other way
  /// round, ends up with a secret that nobody else has, until the ranks compare their settings.
  static JobSecret share(Bootstrap& bootstrap, Deadline deadline,
                         const SharedSecret* shared = nullptr);

  [[nodiscard]] std::span<const std::byte, secret_bytes> secret() const {
    return std::span<const std::byte, secret_bytes>(secret_->bytes());
  }
  /// Tells jobs apart; public.
  [[nodiscard]] const std::array<std::byte, id_bytes>& id() const { return id_; }

 private:
  std::shared_ptr<SecretMemory> secret_;
  std::array<std::byte, id_bytes> id_{};
};

/// Fills `out` from getrandom. Throws Error{system}.
void draw_random(std::span<std::byte> out);

}  // namespace tutti::bootstrap
