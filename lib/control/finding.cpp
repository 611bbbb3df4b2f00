#include "control/finding.hpp"

namespace tutti::control {

void Finding::encode(ByteWriter& writer) const {
  writer.put(static_cast<std::uint8_t>(code)).put(static_cast<std::uint32_t>(origin));
  writer.put(static_cast<std::uint32_t>(lost.size()));
  for (const auto& [rank, reason] : lost) {
    writer.put(static_cast<std::uint32_t>(rank)).put(static_cast<std::uint8_t>(reason));
  }
  writer.put(static_cast<std::uint32_t>(culprits.size()));
  for (const int rank : culprits) writer.put(static_cast<std::uint32_t>(rank));
  writer.put_string(sentence.substr(0, most_sentence_bytes));
}

std::optional<Finding> Finding::decode(ByteReader& reader, int size) {
  Finding finding;
  const auto code = reader.get<std::uint8_t>();
  if (code > static_cast<std::uint8_t>(ErrorCode::system)) return std::nullopt;
  finding.code = static_cast<ErrorCode>(code);
  const auto ranks = static_cast<std::uint32_t>(size);
  const auto origin = reader.get<std::uint32_t>();
  const auto count = reader.get<std::uint32_t>();
  if (origin >= ranks || count > ranks) return std::nullopt;
  finding.origin = static_cast<int>(origin);
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto rank = reader.get<std::uint32_t>();
    const auto reason = reader.get<std::uint8_t>();
    if (rank >= ranks || reason > static_cast<std::uint8_t>(LossReason::ports_closed)) {
      return std::nullopt;
    }
    finding.lost[static_cast<int>(rank)] = static_cast<LossReason>(reason);
  }
  const auto culprit_count = reader.get<std::uint32_t>();
  if (culprit_count > ranks) return std::nullopt;
  for (std::uint32_t i = 0; i < culprit_count && reader.ok(); ++i) {
    const auto rank = reader.get<std::uint32_t>();
    if (rank >= ranks) return std::nullopt;
    finding.culprits.insert(static_cast<int>(rank));
  }
  finding.sentence = reader.get_string();
  if (!reader.ok()) return std::nullopt;
  return finding;
}

int speaker(const Finding& finding) {
  int rank = 0;
  // Those who made different calls are alive and can speak; those who are late may be stopped.
  // Unless they wait for each other.
  const bool skip_culprits =
      finding.code == ErrorCode::timeout && !finding.culprits.contains(finding.origin);
  while (finding.lost.contains(rank) || (skip_culprits && finding.culprits.contains(rank))) ++rank;
  return rank;
}

Finding merge(const std::optional<Finding>& first, const Finding& second) {
  if (!first) return second;
  if (second.code != ErrorCode::peer_lost) return *first;
  if (first->code != ErrorCode::peer_lost) return second;
  auto both = *first;
  both.lost.insert(second.lost.begin(), second.lost.end());
  return both;
}

}  // namespace tutti::control
