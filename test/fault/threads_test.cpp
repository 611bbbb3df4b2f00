// Ranks of which one can start no thread.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

/// From now on this process starts no thread, as at a limit on processes; false where the system
/// does not let a process do that to itself.
bool refuse_threads() {
  std::array filter{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool can_refuse_threads() {
  const auto reports = run_ranks(
      1, [](Rank&) -> std::string { return refuse_threads() ? "refused" : "not refused"; });
  if (reports[0].text == "refused") return true;
  WARN("this system does not let a process refuse system calls to itself: not tested");
  return false;
}

void check_failures(const std::vector<Report>& reports, const std::string& purpose) {
  INFO(describe(reports));
  int speaking = 0;
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::system);
    CHECK(report.failure->culprits == std::vector{1});
    CHECK(report.failure->sentence.find("rank 1 (") == 0);
    CHECK(report.failure->sentence.find("can't start a thread " + purpose +
                                        ": Resource temporarily unavailable (errno 11): ") !=
          std::string::npos);
    CHECK(report.failure->sentence.find("raise the limit") != std::string::npos);
    speaking += report.failure->speaks ? 1 : 0;
  }
  CHECK(speaking == 1);
}

}  // namespace

TEST_CASE("a rank that can start no thread ends the set-up of all, and all name it") {
  if (!can_refuse_threads()) return;
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    if (rank.rank() == 1) refuse_threads();
    rank.communicator({.timeout = 20s});
    return "set up";
  });
  check_failures(reports, "for the control links");
}

TEST_CASE("a rank that can start no thread for a started call ends the job, the same on all") {
  if (!can_refuse_threads()) return;
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<int> data(1000, 1);
    communicator.all_reduce(in_place, std::span(data), sum);
    if (rank.rank() == 1) refuse_threads();
    std::string first;
    try {
      communicator.all_reduce_async(in_place, std::span(data), sum).wait();
    } catch (const Error& error) {
      first = error.sentence();
    }
    expect(!first.empty(), "the started call went well");
    // Calls that block, too.
    communicator.barrier();
    return "went on";
  });
  check_failures(reports, "that moves calls while the program computes");
}

TEST_CASE("calls that block need no thread after set-up, and neither does the end") {
  if (!can_refuse_threads()) return;
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    if (rank.rank() == 1) refuse_threads();
    std::vector<int> data(100'000, 1);
    communicator.all_reduce(in_place, std::span(data), sum);
    communicator.duplicate().barrier();
    communicator.finalize();
    return "done";
  });
  CHECK(trouble(reports) == "");
}

}  // namespace tutti::test
