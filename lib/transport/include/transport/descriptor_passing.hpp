#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/descriptor.hpp"
#include "bootstrap/job_secret.hpp"
#include "tutti/deadline.hpp"

/// Short messages ("notes") between two ranks of a host, some with a file descriptor, over an
/// abstract Unix socket, which ends with its owner.
namespace tutti::transport {

/// How often a rank that waits for a note checks for connections, cancellation and its deadline.
inline constexpr std::chrono::milliseconds poll_interval{5};

enum class NoteKind : std::uint8_t { request = 1, yes, no };

/// Derives the socket names, and the proof that a sender is a member of the job.
struct NoteKey {
  bootstrap::JobSecret secret;
  std::uint32_t epoch = 0;  ///< of the job; incremented when it shrinks
};

struct Note {
  NoteKind kind = NoteKind::no;
  std::int32_t rank = -1;             ///< of a request
  std::array<std::byte, 32> proof{};  ///< of a request
  std::array<char, 160> reason{};     ///< of a refusal
  Descriptor file = Descriptor();     ///< descriptor that an acceptance may carry

  static Note yes() { return {.kind = NoteKind::yes}; }
  static Note no(const std::string& reason);
  /// Proves to rank `to` that rank `from` is a member of the job.
  static Note request(const NoteKey& key, int from, int to);
  [[nodiscard]] bool proves_membership(const NoteKey& key, int to) const;
  [[nodiscard]] std::string text() const { return reason.data(); }
};

/// Opens rank `owner`'s socket. Its name is derived from the secret, so that no other process can
/// take it first. Throws Error{system}.
[[nodiscard]] Descriptor listen_for_notes(const NoteKey& key, int owner);
/// Returns an empty descriptor if nobody connects within `limit`.
[[nodiscard]] Descriptor accept_notes(const Descriptor& socket, std::chrono::milliseconds limit);
/// Throws Error{system} if `owner` does not listen. Returns an empty descriptor if its backlog is
/// full.
[[nodiscard]] Descriptor connect_for_notes(const NoteKey& key, int owner);

/// Returns false if the peer has closed the connection.
bool send_note(const Descriptor& connection, const Note& note, int file = -1);
enum class Received : std::uint8_t { note, closed, timeout, cancelled };
/// A malformed note counts as closed.
[[nodiscard]] Received receive_note(const Descriptor& connection, Note& note, Deadline limit,
                                    const std::function<bool()>& cancelled);

}  // namespace tutti::transport
