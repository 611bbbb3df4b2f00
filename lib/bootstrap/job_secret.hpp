#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/bootstrap.hpp"

namespace tutti::bootstrap {

/// What every member of a job holds and nobody else: it proves membership. Wiped when it goes.
class JobSecret {
 public:
  static constexpr std::size_t secret_bytes = 32;
  static constexpr std::size_t id_bytes = 16;

  /// Random from the kernel. Throws Error{system}.
  static JobSecret draw();
  /// Rank 0 draws it and the bootstrap hands it round.
  static JobSecret share(Bootstrap& bootstrap, Deadline deadline);

  JobSecret(const JobSecret&) = default;
  JobSecret& operator=(const JobSecret&) = default;
  ~JobSecret();

  [[nodiscard]] const std::array<std::byte, secret_bytes>& secret() const { return secret_; }
  /// Tells jobs apart; public.
  [[nodiscard]] const std::array<std::byte, id_bytes>& id() const { return id_; }

 private:
  JobSecret() = default;
  std::array<std::byte, secret_bytes> secret_{};
  std::array<std::byte, id_bytes> id_{};
};

/// Fills `out` from getrandom. Throws Error{system}.
void draw_random(std::span<std::byte> out);

}  // namespace tutti::bootstrap
