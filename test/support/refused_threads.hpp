#pragma once

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

/// Makes thread creation fail in this process, as at a limit on processes. Returns false if the
/// system does not allow such a filter.
inline bool refuse_threads() {
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

inline bool can_refuse_threads() {
  const auto reports = run_ranks(
      1, [](Rank&) -> std::string { return refuse_threads() ? "refused" : "not refused"; });
  if (reports[0].text == "refused") return true;
  WARN("this system does not let a process refuse system calls to itself: not tested");
  return false;
}

}  // namespace tutti::test
