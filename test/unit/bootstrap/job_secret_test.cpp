// The job secret: its memory, and how the ranks get it.
#include "bootstrap/job_secret.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "bootstrap/shared_secret.hpp"
#include "support/catch.hpp"
#include "support/mappings.hpp"
#include "support/sanitized.hpp"
#include "support/secret.hpp"
#include "tutti/error.hpp"

namespace tutti::bootstrap::test {

using tutti::test::mapping_flags;
using tutti::test::SecretBootstrap;

namespace {

/// Rank 0 of 2, which records what it sent.
class RootBootstrap final : public Bootstrap {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 2; }
  [[nodiscard]] std::string source() const override { return "a test"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline) override { return {mine, mine}; }
  Bytes broadcast(const Bytes& message, int, Deadline) override { return sent = message; }
  void barrier(Deadline) override {}

  Bytes sent;
};

bool same_secret(const JobSecret& a, const JobSecret& b) {
  return std::ranges::equal(a.secret(), b.secret());
}

bool holds(const Bytes& bytes, std::span<const std::byte> part) {
  return std::search(bytes.begin(), bytes.end(), part.begin(), part.end()) != bytes.end();
}

SharedSecret strong(char last) {
  return *SharedSecret::from("", (std::string("0123456789abcdef0123456789abcde") + last).c_str());
}

}  // namespace

TEST_CASE("drawn secrets differ, and copies share memory") {
  const auto one = JobSecret::draw();
  const auto other = JobSecret::draw();
  CHECK(!same_secret(one, other));
  CHECK(one.id() != other.id());
  const auto copy = one;  // NOLINT(performance-unnecessary-copy-initialization)
  CHECK(copy.secret().data() == one.secret().data());
}

TEST_CASE("the page of a secret is excluded from core files, and locked if allowed") {
  const auto secret = JobSecret::draw();
  const auto flags = mapping_flags(secret.secret().data());
  INFO(flags);
  CHECK(flags.find(" dd ") != std::string::npos);
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool is_allowed = limit.rlim_cur >= (1U << 20) && !tutti::test::is_sanitized;
  if (is_allowed) CHECK(flags.find(" lo ") != std::string::npos);
  const int on_the_stack = 0;
  // the check detects pages without the flag
  CHECK(mapping_flags(&on_the_stack).find(" dd ") == std::string::npos);
}

TEST_CASE("secret memory is zero-initialised and may be larger than a page") {
  const SecretMemory memory(10'000);
  CHECK(memory.bytes().size() == 10'000);
  CHECK(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  CHECK(mapping_flags(&memory.bytes().back()).find(" dd ") != std::string::npos);
}

TEST_CASE("without a shared secret the ranks get rank 0's") {
  RootBootstrap root;
  const auto drawn = JobSecret::share(root, Deadline::never());
  CHECK(root.sent.size() == JobSecret::secret_bytes + JobSecret::id_bytes);
  SecretBootstrap other(root.sent);
  const auto got = JobSecret::share(other, Deadline::never());
  CHECK(same_secret(drawn, got));
  CHECK(drawn.id() == got.id());
}

TEST_CASE("with a shared secret only the id is sent, and each communicator has its own secret") {
  const auto shared = strong('0');
  RootBootstrap root;
  const auto drawn = JobSecret::share(root, Deadline::never(), &shared);
  CHECK(root.sent.size() == JobSecret::id_bytes);
  SecretBootstrap other(root.sent);
  const auto got = JobSecret::share(other, Deadline::never(), &shared);
  CHECK(same_secret(drawn, got));
  CHECK(drawn.id() == got.id());
  const auto next = JobSecret::share(root, Deadline::never(), &shared);
  CHECK(!same_secret(drawn, next));
  CHECK(drawn.id() != next.id());
}

TEST_CASE("ranks with different shared secrets, or some without, have different secrets") {
  const auto shared = strong('0');
  const auto wrong = strong('1');
  CHECK(shared.fingerprint() != wrong.fingerprint());
  RootBootstrap root;
  const auto by_shared = JobSecret::share(root, Deadline::never(), &shared);
  SecretBootstrap second(root.sent);
  CHECK(!same_secret(JobSecret::share(second, Deadline::never(), &wrong), by_shared));
  CHECK(!same_secret(JobSecret::share(second, Deadline::never()), by_shared));
  const auto drawn = JobSecret::share(root, Deadline::never());
  SecretBootstrap third(root.sent);
  const auto stranger = JobSecret::share(third, Deadline::never(), &shared);
  CHECK(!same_secret(stranger, drawn));
  CHECK(!holds(root.sent, stranger.secret()));
}

TEST_CASE("a message of another length is rejected as another version's") {
  for (const std::size_t length : {0, 1, 15, 17, 47, 49, 1000}) {
    SecretBootstrap other{Bytes(length)};
    CHECK_THROWS_AS(JobSecret::share(other, Deadline::never()), Error);
    const auto shared = strong('0');
    CHECK_THROWS_AS(JobSecret::share(other, Deadline::never(), &shared), Error);
  }
}

TEST_CASE("each purpose has its own secret and id, derived without communication") {
  const auto store = strong('0').for_purpose("store");
  const auto again = strong('0').for_purpose("store");
  const auto other = strong('0').for_purpose("other");
  CHECK(same_secret(store, again));
  CHECK(store.id() == again.id());
  CHECK(!same_secret(store, other));
  CHECK(store.id() != other.id());
  CHECK(!same_secret(store, strong('1').for_purpose("store")));
}

}  // namespace tutti::bootstrap::test
