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

/// A secret shared by the members of a job; it authenticates them. Copies share one memory block,
/// which is excluded from core dumps and wiped with the last copy.
class JobSecret {
 public:
  static constexpr std::size_t secret_bytes = 32;
  static constexpr std::size_t id_bytes = 16;

  /// Copies `secret`; the caller must wipe its own copy.
  JobSecret(std::span<const std::byte, secret_bytes> secret,
            const std::array<std::byte, id_bytes>& id);

  /// Draws a random secret from the kernel. Throws Error{system}.
  static JobSecret draw();
  /// Rank 0 draws the secret and broadcasts it over the bootstrap. With a `shared` secret only the
  /// id is sent. If only some ranks have a `shared` secret, the secrets differ, which the ranks
  /// detect when they compare their settings.
  static JobSecret share(Bootstrap& bootstrap, Deadline deadline,
                         const SharedSecret* shared = nullptr);

  [[nodiscard]] std::span<const std::byte, secret_bytes> secret() const {
    return std::span<const std::byte, secret_bytes>(secret_->bytes());
  }
  /// Identifies the job; public.
  [[nodiscard]] const std::array<std::byte, id_bytes>& id() const { return id_; }

 private:
  std::shared_ptr<SecretMemory> secret_;
  std::array<std::byte, id_bytes> id_{};
};

/// Fills `out` from getrandom. Throws Error{system}.
void draw_random(std::span<std::byte> out);

}  // namespace tutti::bootstrap
