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

/// Short messages between two ranks of a host, some with an open file, over a socket in the
/// abstract name space, which ends with its user.
namespace tutti::transport {

/// How often who waits for a note looks whether anything else has come: connections, the deadline.
inline constexpr std::chrono::milliseconds look_around{5};

enum class NoteKind : std::uint8_t { request = 1, yes, no };

/// What sockets are named by, and members prove that they know.
struct NoteKey {
  bootstrap::JobSecret secret;
  std::uint32_t epoch = 0;  ///< of the job, which grows when it shrinks
};

struct Note {
  NoteKind kind = NoteKind::no;
  std::int32_t rank = -1;             ///< of a request
  std::array<std::byte, 32> proof{};  ///< of a request
  std::array<char, 160> reason{};     ///< of a no
  Descriptor file = Descriptor();     ///< with a yes, where a file comes with it

  static Note yes() { return {.kind = NoteKind::yes}; }
  static Note no(const std::string& reason);
  /// What proves to rank `to` that rank `from` is a member of the job.
  static Note request(const NoteKey& key, int from, int to);
  [[nodiscard]] bool proves_membership(const NoteKey& key, int to) const;
  [[nodiscard]] std::string text() const { return reason.data(); }
};

/// Rank `owner`'s socket: its name is derived from the secret, so that nobody else can take it
/// before. Throws Error{system}.
[[nodiscard]] Descriptor listen_for_notes(const NoteKey& key, int owner);
/// Empty until `limit` or while nobody comes.
[[nodiscard]] Descriptor accept_notes(const Descriptor& socket, std::chrono::milliseconds limit);
/// Throws Error{system} where `owner` does not listen. Empty while more wait there than the system
/// lets wait.
[[nodiscard]] Descriptor connect_for_notes(const NoteKey& key, int owner);

/// False where the other end is gone.
bool send_note(const Descriptor& connection, const Note& note, int file = -1);
enum class Received : std::uint8_t { note, closed, late, cancelled };
/// What is no note counts as closed.
[[nodiscard]] Received receive_note(const Descriptor& connection, Note& note, Deadline limit,
                                    const std::function<bool()>& cancelled);

}  // namespace tutti::transport
