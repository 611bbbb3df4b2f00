#include "support/own_kernel.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tutti::test {

int pretend_own_kernel(int host) {
  const auto file = fmt::format("/tmp/tutti_boot_id_{}_{}", ::getpid(), host);
  const auto text = fmt::format("boot-of-host-{}\n", host);
  auto* const out = std::fopen(file.c_str(), "w");
  if (out == nullptr) return errno;
  std::fwrite(text.data(), 1, text.size(), out);
  std::fclose(out);
  const bool done =
      ::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount(file.c_str(), "/proc/sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr) == 0;
  const int error = done ? 0 : errno;
  ::unlink(file.c_str());
  return error;
}

std::string why_no_own_kernel() {
  std::fflush(nullptr);  // else the child would print buffered output again
  const auto child = ::fork();
  if (child < 0) return fmt::format("fork failed: {}", std::strerror(errno));
  if (child == 0) ::_exit(pretend_own_kernel(0));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status == 0) return {};
  return fmt::format("a boot id of its own for a process takes CAP_SYS_ADMIN: {}",
                     std::strerror(WEXITSTATUS(status)));
}

}  // namespace tutti::test
