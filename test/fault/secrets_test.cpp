// Jobs with shared secrets: the same on all ranks, different ones, or none on some.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include "bootstrap/job_secret.hpp"
#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

const std::string one = "f3a9c1d27b604e58a1b2c3d4e5f60718";
const std::string other = "18f3a9c1d27b604e58a1b2c3d4e5f607";

/// A rank with `secret` in its environment; empty for none. Returns its log.
std::string run_with(Rank& rank, const std::string& secret) {
  if (!secret.empty()) ::setenv("TUTTI_SECRET", secret.c_str(), 1);
  // Threads of the communicator write to it until the communicator is destroyed.
  struct Logged {
    std::mutex mutex;
    std::string text;
  };
  const auto logged = std::make_shared<Logged>();
  Options options{.timeout = 20s};
  options.log_level = LogLevel::debug;
  options.log = [logged](LogLevel, const std::string& line) {
    const std::lock_guard lock(logged->mutex);
    logged->text += line + "\n";
  };
  auto& communicator = rank.communicator(options);
  std::vector<float> data(1000);
  reduce_and_check(rank, communicator, data);
  communicator.finalize();
  expect(rank.bootstrap().latest_broadcast().size() ==
             (secret.empty() ? bootstrap::JobSecret::secret_bytes : 0) +
                 bootstrap::JobSecret::id_bytes,
         "the broadcast has the wrong length");
  const std::lock_guard lock(logged->mutex);
  return logged->text;
}

void check_mismatch(const std::vector<Report>& reports) {
  for (const auto& report : reports) {
    INFO(describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->sentence.find("TUTTI_SECRET_FILE or TUTTI_SECRET") != std::string::npos);
    CHECK(report.failure->sentence.find("rank 2") != std::string::npos);
    CHECK(report.failure->sentence.find(one) == std::string::npos);
    CHECK(report.failure->failed_ranks == std::vector<int>{0, 2});
  }
}

}  // namespace

TEST_CASE("ranks with the same secret connect, and no log contains it") {
  const auto reports = run_ranks(3, [](Rank& rank) { return run_with(rank, one); });
  CHECK(errors_of(reports) == "");
  for (const auto& report : reports) CHECK(report.text.find(one) == std::string::npos);
}

TEST_CASE("without a secret rank 0 generates one") {
  CHECK(errors_of(run_ranks(3, [](Rank& rank) { return run_with(rank, ""); })) == "");
}

TEST_CASE("a rank with another secret, or with none, is named by all") {
  check_mismatch(
      run_ranks(3, [](Rank& rank) { return run_with(rank, rank.rank() == 2 ? other : one); }));
  check_mismatch(
      run_ranks(3, [](Rank& rank) { return run_with(rank, rank.rank() == 2 ? "" : one); }));
  check_mismatch(
      run_ranks(3, [](Rank& rank) { return run_with(rank, rank.rank() == 2 ? one : ""); }));
}

TEST_CASE("a secret file that others can read stops the rank before any rendezvous") {
  std::string path = "/tmp/tutti_secret_XXXXXX";
  const int fd = ::mkstemp(path.data());
  REQUIRE(fd >= 0);
  REQUIRE(::write(fd, one.data(), one.size()) == static_cast<ssize_t>(one.size()));
  ::fchmod(fd, 0644);
  ::close(fd);
  const auto reports = run_ranks(1, [&](Rank& rank) -> std::string {
    ::setenv("TUTTI_SECRET_FILE", path.c_str(), 1);
    return run_with(rank, "");
  });
  ::unlink(path.c_str());
  REQUIRE(reports[0].failure);
  CHECK(reports[0].failure->code == ErrorCode::usage);
  CHECK(reports[0].failure->sentence.find("chmod 600") != std::string::npos);
}

}  // namespace tutti::test
