#include "control/failure_report.hpp"

namespace tutti::control {

void FailureReport::encode(ByteWriter& writer) const {
  writer.put(static_cast<std::uint8_t>(code)).put(static_cast<std::uint32_t>(origin));
  writer.put(static_cast<std::uint32_t>(lost.size()));
  for (const auto& [rank, reason] : lost) {
    writer.put(static_cast<std::uint32_t>(rank)).put(static_cast<std::uint8_t>(reason));
  }
  writer.put(static_cast<std::uint32_t>(failed_ranks.size()));
  for (const int rank : failed_ranks) writer.put(static_cast<std::uint32_t>(rank));
  writer.put_string(sentence.substr(0, max_sentence_bytes));
}

std::optional<FailureReport> FailureReport::decode(ByteReader& reader, int size) {
  FailureReport report;
  const auto code = reader.get<std::uint8_t>();
  if (code > static_cast<std::uint8_t>(ErrorCode::system)) return std::nullopt;
  report.code = static_cast<ErrorCode>(code);
  const auto ranks = static_cast<std::uint32_t>(size);
  const auto origin = reader.get<std::uint32_t>();
  const auto count = reader.get<std::uint32_t>();
  if (origin >= ranks || count > ranks) return std::nullopt;
  report.origin = static_cast<int>(origin);
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto rank = reader.get<std::uint32_t>();
    const auto reason = reader.get<std::uint8_t>();
    if (rank >= ranks || reason > static_cast<std::uint8_t>(LossReason::ports_closed)) {
      return std::nullopt;
    }
    report.lost[static_cast<int>(rank)] = static_cast<LossReason>(reason);
  }
  const auto failed_rank_count = reader.get<std::uint32_t>();
  if (failed_rank_count > ranks) return std::nullopt;
  for (std::uint32_t i = 0; i < failed_rank_count && reader.ok(); ++i) {
    const auto rank = reader.get<std::uint32_t>();
    if (rank >= ranks) return std::nullopt;
    report.failed_ranks.insert(static_cast<int>(rank));
  }
  report.sentence = reader.get_string();
  if (!reader.ok()) return std::nullopt;
  return report;
}

int speaker(const FailureReport& report) {
  int rank = 0;
  // Ranks with mismatched calls are alive and can print; late ranks may be stopped, unless they
  // wait for each other.
  const bool skip_failed_ranks =
      report.code == ErrorCode::timeout && !report.failed_ranks.contains(report.origin);
  while (report.lost.contains(rank) || (skip_failed_ranks && report.failed_ranks.contains(rank)))
    ++rank;
  return rank;
}

FailureReport merge(const std::optional<FailureReport>& first, const FailureReport& second) {
  if (!first) return second;
  if (second.code != ErrorCode::peer_lost) return *first;
  if (first->code != ErrorCode::peer_lost) return second;
  auto both = *first;
  both.lost.insert(second.lost.begin(), second.lost.end());
  return both;
}

}  // namespace tutti::control
