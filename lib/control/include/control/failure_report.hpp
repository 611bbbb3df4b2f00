#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/bytes.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

/// How a rank was lost. The values travel between ranks: never renumber.
enum class LossReason : std::uint8_t {
  process_ended,      ///< the kernel of its host says so
  connection_closed,  ///< its end of a control link was closed without a goodbye
  host_silent,        ///< nothing from its host for the keep-alive time
  has_left,           ///< it said goodbye instead of coming along to the survivors' job
  ports_closed,       ///< its host refuses connections at all its ports, before there was a link
};

/// A longer sentence is cut where it is found, so that all ranks decide on the same.
inline constexpr std::size_t max_sentence_bytes = 2048;

/// Something that ends the job's communication, as one rank found it or as all have agreed.
struct FailureReport {
  ErrorCode code = ErrorCode::aborted;
  std::map<int, LossReason> lost;  ///< peer_lost: the dead
  std::set<int> failed_ranks;      ///< all other codes: living ranks that caused it
  std::string sentence;            ///< all other codes
  int origin = -1;                 ///< the rank that found it

  void encode(ByteWriter& writer) const;
  static std::optional<FailureReport> decode(ByteReader& reader, int size);
  friend bool operator==(const FailureReport&, const FailureReport&) = default;
};

/// The rank that should speak for the job: the lowest that is neither dead nor waited for.
[[nodiscard]] int speaker(const FailureReport& report);

/// Both in one: deaths outweigh everything and add up; of the rest the first stays.
[[nodiscard]] FailureReport merge(const std::optional<FailureReport>& first,
                                  const FailureReport& second);

}  // namespace tutti::control
