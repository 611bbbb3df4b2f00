// What ranks tell each other of deaths and disagreements.
#include "control/finding.hpp"

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

Finding deaths(std::map<int, LossReason> lost, int origin = 0) {
  return {.code = ErrorCode::peer_lost, .lost = std::move(lost), .origin = origin};
}

Finding trouble(ErrorCode code, std::set<int> culprits, int origin = 0) {
  return {
      .code = code, .culprits = std::move(culprits), .sentence = "a sentence", .origin = origin};
}

Bytes encoded(const Finding& finding) {
  ByteWriter writer;
  finding.encode(writer);
  return std::move(writer).bytes();
}

std::optional<Finding> decoded(std::span<const std::byte> bytes, int size) {
  ByteReader reader(bytes);
  return Finding::decode(reader, size);
}

const Finding rich{.code = ErrorCode::peer_lost,
                   .lost = {{1, LossReason::process_ended}, {6, LossReason::host_silent}},
                   .culprits = {0, 3},
                   .sentence = "something happened",
                   .origin = 7};

// Where the bytes of `rich` have what.
constexpr std::size_t origin_at = 1;
constexpr std::size_t lost_count_at = 5;
constexpr std::size_t lost_at = 9;
constexpr std::size_t culprit_count_at = 19;
constexpr std::size_t culprits_at = 23;

}  // namespace

TEST_CASE("a finding survives the way") {
  CHECK(decoded(encoded(rich), 8) == rich);
  CHECK(decoded(encoded(trouble(ErrorCode::timeout, {2}, 1)), 3) ==
        trouble(ErrorCode::timeout, {2}, 1));
}

TEST_CASE("a sentence of any length arrives, cut at 2048 bytes") {
  auto finding = trouble(ErrorCode::mismatch, {});
  finding.sentence.assign(5000, 'x');
  const auto arrived = decoded(encoded(finding), 1);
  REQUIRE(arrived);
  CHECK(arrived->sentence == std::string(2048, 'x'));
}

TEST_CASE("a finding cut short anywhere is none") {
  const auto bytes = encoded(rich);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO("length " << length);
    REQUIRE(!decoded(std::span(bytes).first(length), 8));
  }
}

TEST_CASE("a finding with a value out of range is none") {
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
  CHECK(!with(culprit_count_at, 9));
  CHECK(!with(culprit_count_at + 2, 1));
  CHECK(with(culprits_at, 7));
  CHECK(!with(culprits_at, 8));
}

TEST_CASE("no single byte makes a finding that names a rank out of range") {
  const auto bytes = encoded(rich);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      auto spoiled = bytes;
      spoiled[at] = static_cast<std::byte>(value);
      const auto finding = decoded(spoiled, 8);
      if (!finding) continue;
      bool in_range = finding->origin >= 0 && finding->origin < 8;
      for (const auto& [rank, reason] : finding->lost) in_range &= rank >= 0 && rank < 8;
      for (const int rank : finding->culprits) in_range &= rank >= 0 && rank < 8;
      if (!in_range) FAIL("byte " << at << " as " << value);
    }
  }
}

TEST_CASE("deaths add up, and the first word on each stays") {
  const auto first = deaths({{2, LossReason::process_ended}}, 1);
  const auto second = deaths({{2, LossReason::host_silent}, {3, LossReason::host_silent}}, 5);
  const auto both = merge(first, second);
  CHECK(both == deaths({{2, LossReason::process_ended}, {3, LossReason::host_silent}}, 1));
  CHECK(merge(std::nullopt, second) == second);
  CHECK(merge(both, second) == both);
}

TEST_CASE("deaths outweigh all else, and of the rest the first stays") {
  const auto death = deaths({{2, LossReason::process_ended}});
  const auto timeout = trouble(ErrorCode::timeout, {1});
  const auto mismatch = trouble(ErrorCode::mismatch, {0, 1});
  CHECK(merge(timeout, death) == death);
  CHECK(merge(death, timeout) == death);
  CHECK(merge(timeout, mismatch) == timeout);
  CHECK(merge(mismatch, timeout) == mismatch);
  CHECK(merge(std::nullopt, mismatch) == mismatch);
}

TEST_CASE("the lowest rank that can speak for the job does") {
  CHECK(speaker(deaths({{1, LossReason::process_ended}})) == 0);
  CHECK(speaker(deaths({{0, LossReason::process_ended}, {1, LossReason::process_ended}})) == 2);
  CHECK(speaker(trouble(ErrorCode::timeout, {0, 2}, 1)) == 1);  // it may be stopped
  CHECK(speaker(trouble(ErrorCode::timeout, {0, 2}, 2)) == 0);  // a circle: all of them wait
  CHECK(speaker(trouble(ErrorCode::mismatch, {0, 1})) == 0);    // both live
  CHECK(speaker(trouble(ErrorCode::aborted, {0})) == 0);
}

}  // namespace tutti::control::test
