// Content of an error, which ranks print it, and how a program exits with it.
#include "tutti/error.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error_builder.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

struct End {
  std::string said;
  int status = -1;
  Clock::duration time{};
};

/// Standard error of a process that ends by abort_after().
End end_after(const Error& error) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const auto start = Clock::now();
  const auto child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    abort_after(error);
  }
  ::close(ends[1]);
  End end;
  std::array<char, 256> some{};
  for (ssize_t got = 0; (got = ::read(ends[0], some.data(), some.size())) > 0;) {
    end.said.append(some.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) end.status = WEXITSTATUS(status);
  end.time = Clock::now() - start;
  return end;
}

}  // namespace

TEST_CASE("an error of a program's own has a code, a sentence and ranks") {
  const Error error(ErrorCode::timeout, "rank 3 is late", {3});
  CHECK(error.code() == ErrorCode::timeout);
  CHECK(std::string_view(error.what()) == "rank 3 is late");
  CHECK(error.failed_ranks() == std::vector<int>{3});
  CHECK(error.rank() == -1);
  CHECK(error.operation().empty());
  CHECK(error.speaks_for_job());
  CHECK(Error(ErrorCode::usage, "no ranks").failed_ranks().empty());
}

TEST_CASE("the library adds where an error was thrown") {
  const auto error = ErrorBuilder(Error(ErrorCode::peer_lost, "rank 1 is lost", {1}))
                         .at(2, "node1")
                         .in("barrier", 7)
                         .speaks_for_job(false)
                         .error();
  CHECK(error.code() == ErrorCode::peer_lost);
  CHECK(error.failed_ranks() == std::vector<int>{1});
  CHECK(error.rank() == 2);
  CHECK(error.host() == "node1");
  CHECK(error.operation() == "barrier");
  CHECK(error.sequence() == 7);
  CHECK(!error.speaks_for_job());
}

TEST_CASE("abort_after ends with status 1, and the rank that speaks says why at once") {
  const auto end = end_after(Error(ErrorCode::peer_lost, "rank 1 is lost"));
  CHECK(end.status == 1);
  CHECK(end.said.ends_with(": rank 1 is lost\n"));
  CHECK(end.said.starts_with("unit_base"));
}

TEST_CASE("abort_after is silent on other ranks, and gives the one that speaks time to") {
  const Error error(ErrorCode::peer_lost, "rank 1 is lost");
  const auto end = end_after(ErrorBuilder(error).speaks_for_job(false).error());
  CHECK(end.status == 1);
  CHECK(end.said.empty());
  CHECK(end.time >= std::chrono::milliseconds(800));
}

}  // namespace tutti::test
