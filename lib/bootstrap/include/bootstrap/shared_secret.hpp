#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret_memory.hpp"
#include "bootstrap/job_secret.hpp"

namespace tutti::bootstrap {

/// Takes TUTTI_SECRET out of what /proc/PID/environ shows: its text moves to memory that no core
/// file holds, where getenv goes on report it, and the place where it stood is wiped. Programs
/// that this process starts still inherit it. Returns the value; null where it is unset or empty.
/// Call it early, while no other thread reads or changes the environment; calling it again does no
/// harm.
const char* hide_secret_of_environment();

/// What the user gave to every rank before the job started, by TUTTI_SECRET_FILE or TUTTI_SECRET.
/// All secrets of the job come from it by HMAC-SHA256, so that it never travels itself.
///
/// A bootstrap without MPI uses it as follows:
///
///     const auto shared = SharedSecret::from(environment.secret_file,
///     hide_secret_of_environment()); if (shared) {
///       Membership self{.secret = shared->for_purpose("store"), …};   // then the usual handshake
///     }
class SharedSecret {
 public:
  static constexpr std::size_t min_characters = 32;
  static constexpr std::size_t max_characters = 4096;
  static constexpr std::size_t min_different_characters = 8;

  /// The secret in `file`, where that is not empty, else `text` (TUTTI_SECRET), where that is not
  /// null or empty; else nothing. White space round it does not count. Throws Error{usage} for a
  /// file that can't be read or that others may read, and for a secret that is too weak; the
  /// sentence never holds the secret.
  static std::optional<SharedSecret> from(const std::string& file, const char* text);

  /// The same on every rank, different for each purpose, job id included; no exchange is needed.
  [[nodiscard]] JobSecret for_purpose(std::string_view purpose) const;
  /// The secret of the communicator with this id.
  [[nodiscard]] JobSecret for_id(const std::array<std::byte, JobSecret::id_bytes>& id) const;
  /// Tells different secrets apart and betrays nothing of a strong one; public.
  [[nodiscard]] std::string fingerprint() const;

 private:
  SharedSecret(std::unique_ptr<SecretMemory> memory, std::size_t characters,
               std::string_view source);
  [[nodiscard]] std::span<const std::byte> text() const {
    return memory_->bytes().subspan(begin_, length_);
  }

  std::unique_ptr<SecretMemory> memory_;
  std::size_t begin_ = 0;
  std::size_t length_ = 0;
};

}  // namespace tutti::bootstrap
