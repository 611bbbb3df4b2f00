#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/bytes.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

/// How a rank was lost. The values are part of the wire format: never renumber.
enum class LossReason : std::uint8_t {
  process_ended,      ///< reported by its host's kernel
  connection_closed,  ///< it closed a control link before it left the job
  host_silent,        ///< its host did not respond for the keep-alive time
  has_left,           ///< it left the job instead of joining the survivors' job
  ports_closed,       ///< its host refuses connections at all its ports, before it had a link
};

/// A longer sentence is truncated by the reporting rank, so that all ranks agree on the same text.
inline constexpr std::size_t max_sentence_bytes = 2048;

/// A failure that ends the job's communication, as reported by one rank or agreed on by all.
struct FailureReport {
  ErrorCode code = ErrorCode::aborted;
  std::map<int, LossReason> lost;  ///< peer_lost: the dead ranks
  std::set<int> failed_ranks;      ///< all other codes: the living ranks that caused it
  std::string sentence;            ///< all other codes
  int origin = -1;                 ///< the rank that reported it

  void encode(ByteWriter& writer) const;
  static std::optional<FailureReport> decode(ByteReader& reader, int size);
  friend bool operator==(const FailureReport&, const FailureReport&) = default;
};

/// The rank that should print the error for the job: the lowest that is neither dead nor waited
/// for.
[[nodiscard]] int speaker(const FailureReport& report);

/// Merges two reports: deaths take precedence and accumulate; otherwise the first report stays.
[[nodiscard]] FailureReport merge(const std::optional<FailureReport>& first,
                                  const FailureReport& second);

}  // namespace tutti::control
