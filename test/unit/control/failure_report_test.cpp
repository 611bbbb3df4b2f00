// Failure reports: encoding and merging.
#include "control/failure_report.hpp"

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

FailureReport deaths(std::map<int, LossReason> lost, int origin = 0) {
  return {.code = ErrorCode::peer_lost, .lost = std::move(lost), .origin = origin};
}

FailureReport trouble(ErrorCode code, std::set<int> failed_ranks, int origin = 0) {
  return {.code = code,
          .failed_ranks = std::move(failed_ranks),
          .sentence = "a sentence",
          .origin = origin};
}

Bytes encoded(const FailureReport& report) {
  ByteWriter writer;
  report.encode(writer);
  return std::move(writer).bytes();
}

std::optional<FailureReport> decoded(std::span<const std::byte> bytes, int size) {
  ByteReader reader(bytes);
  return FailureReport::decode(reader, size);
}

const FailureReport rich{.code = ErrorCode::peer_lost,
                         .lost = {{1, LossReason::process_ended}, {6, LossReason::host_silent}},
                         .failed_ranks = {0, 3},
                         .sentence = "something happened",
                         .origin = 7};

// Offsets in the encoding of `rich`.
constexpr std::size_t origin_at = 1;
constexpr std::size_t lost_count_at = 5;
constexpr std::size_t lost_at = 9;
constexpr std::size_t failed_rank_count_at = 19;
constexpr std::size_t failed_ranks_at = 23;

}  // namespace

TEST_CASE("a report survives encoding and decoding") {
  CHECK(decoded(encoded(rich), 8) == rich);
  CHECK(decoded(encoded(trouble(ErrorCode::timeout, {2}, 1)), 3) ==
        trouble(ErrorCode::timeout, {2}, 1));
}

TEST_CASE("a sentence of any length is sent, truncated at 2048 bytes") {
  auto report = trouble(ErrorCode::mismatch, {});
  report.sentence.assign(5000, 'x');
  const auto arrived = decoded(encoded(report), 1);
  REQUIRE(arrived);
  CHECK(arrived->sentence == std::string(2048, 'x'));
}

TEST_CASE("a truncated report is rejected") {
  const auto bytes = encoded(rich);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("length " << length);
    REQUIRE(!decoded(std::span(bytes).first(length), 8));
  }
}

TEST_CASE("a report with a value out of range is rejected") {
  const auto with = [](std::size_t at, unsigned value) {
    auto bytes = encoded(rich);
    bytes[at] = static_cast<std::byte>(value);
    return decoded(bytes, 8);
  };
  CHECK(with(0, static_cast<unsigned>(ErrorCode::system)));
  CHECK(!with(0, static_cast<unsigned>(ErrorCode::system) + 1));
  CHECK(with(origin_at, 5));
  CHECK(!with(origin_at, 8));
  CHECK(!with(origin_at + 3, 0xFF));
  CHECK(!with(lost_count_at, 9));
  CHECK(!with(lost_count_at + 3, 0xFF));
  CHECK(with(lost_at, 2));
  CHECK(!with(lost_at, 8));
  CHECK(with(lost_at + 4, 2));
  CHECK(with(lost_at + 4, 3));
  CHECK(with(lost_at + 4, 4));
  CHECK(!with(lost_at + 4, 5));
  CHECK(!with(failed_rank_count_at, 9));
  CHECK(!with(failed_rank_count_at + 2, 1));
  CHECK(with(failed_ranks_at, 7));
  CHECK(!with(failed_ranks_at, 8));
}

TEST_CASE("no change of one byte yields a report with a rank out of range") {
  const auto bytes = encoded(rich);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      auto spoiled = bytes;
      spoiled[at] = static_cast<std::byte>(value);
      const auto report = decoded(spoiled, 8);
      if (!report) continue;
      bool in_range = report->origin >= 0 && report->origin < 8;
      for (const auto& [rank, reason] : report->lost) in_range &= rank >= 0 && rank < 8;
      for (const int rank : report->failed_ranks) in_range &= rank >= 0 && rank < 8;
      if (!in_range) FAIL("byte " << at << " as " << value);
    }
  }
}

TEST_CASE("deaths accumulate, and the first reason of each stays") {
  const auto first = deaths({{2, LossReason::process_ended}}, 1);
  const auto second = deaths({{2, LossReason::host_silent}, {3, LossReason::host_silent}}, 5);
  const auto both = merge(first, second);
  CHECK(both == deaths({{2, LossReason::process_ended}, {3, LossReason::host_silent}}, 1));
  CHECK(merge(std::nullopt, second) == second);
  CHECK(merge(both, second) == both);
}

TEST_CASE("deaths take precedence, otherwise the first report stays") {
  const auto death = deaths({{2, LossReason::process_ended}});
  const auto timeout = trouble(ErrorCode::timeout, {1});
  const auto mismatch = trouble(ErrorCode::mismatch, {0, 1});
  CHECK(merge(timeout, death) == death);
  CHECK(merge(death, timeout) == death);
  CHECK(merge(timeout, mismatch) == timeout);
  CHECK(merge(mismatch, timeout) == mismatch);
  CHECK(merge(std::nullopt, mismatch) == mismatch);
}

TEST_CASE("the speaker is the lowest rank that can print for the job") {
  CHECK(speaker(deaths({{1, LossReason::process_ended}})) == 0);
  CHECK(speaker(deaths({{0, LossReason::process_ended}, {1, LossReason::process_ended}})) == 2);
  CHECK(speaker(trouble(ErrorCode::timeout, {0, 2}, 1)) == 1);  // it may be stopped
  CHECK(speaker(trouble(ErrorCode::timeout, {0, 2}, 2)) == 0);  // a cycle: all of them wait
  CHECK(speaker(trouble(ErrorCode::mismatch, {0, 1})) == 0);    // both are alive
  CHECK(speaker(trouble(ErrorCode::aborted, {0})) == 0);
}

}  // namespace tutti::control::test
