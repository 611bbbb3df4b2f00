#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret_memory.hpp"
#include "bootstrap/job_secret.hpp"

namespace tutti::bootstrap {

/// Removes TUTTI_SECRET from /proc/PID/environ: copies its value to memory excluded from core
/// dumps, which getenv() then returns, and wipes the original. Child processes still inherit it.
/// Returns the value; null if it is unset or empty. Call it before other threads access the
/// environment; repeated calls are harmless.
const char* hide_secret_of_environment();

/// The secret given to every rank before the job started, with TUTTI_SECRET_FILE or TUTTI_SECRET.
/// All secrets of the job are derived from it with HMAC-SHA256; it is never sent.
///
/// A bootstrap without MPI uses it as follows:
///
///     const auto text = hide_secret_of_environment();
///     const auto shared = SharedSecret::from(environment.secret_file, text);
///     if (shared) {
///       Membership self{.secret = shared->for_purpose("store"), …};   // then the usual handshake
///     }
class SharedSecret {
 public:
  static constexpr std::size_t min_characters = 32;
  static constexpr std::size_t max_characters = 4096;
  static constexpr std::size_t min_different_characters = 8;

  /// Reads the secret from `file` if that is not empty, else from `text` (TUTTI_SECRET) unless null
  /// or empty; else returns nothing. Surrounding white space is ignored. Throws Error{usage} if the
  /// file is unreadable or accessible to others, or if the secret is too weak; the message never
  /// contains the secret.
  static std::optional<SharedSecret> from(const std::string& file, const char* text);

  /// A secret and job id for a purpose: equal on all ranks without communication, different for
  /// each purpose.
  [[nodiscard]] JobSecret for_purpose(std::string_view purpose) const;
  /// The secret of the communicator with this id.
  [[nodiscard]] JobSecret for_id(const std::array<std::byte, JobSecret::id_bytes>& id) const;
  /// A public fingerprint to compare secrets; it reveals nothing of a strong one.
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
