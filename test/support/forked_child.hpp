#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace tutti::test {

/// A forked child without exec, like a worker of a data loader. Lives as long as this object.
class ForkedChild {
 public:
  ForkedChild() : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("can't fork");
    while (pid_ == 0) ::pause();
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  ~ForkedChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

}  // namespace tutti::test
