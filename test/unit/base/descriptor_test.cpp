#include "base/descriptor.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "support/catch.hpp"

namespace tutti::test {
namespace {

/// Closes the standard descriptors for its lifetime.
class WithoutStandardDescriptors {
 public:
  WithoutStandardDescriptors() {
    for (int fd = 0; fd < 3; ++fd) {
      saved_.at(static_cast<std::size_t>(fd)) = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
      ::close(fd);
    }
  }
  WithoutStandardDescriptors(const WithoutStandardDescriptors&) = delete;
  WithoutStandardDescriptors& operator=(const WithoutStandardDescriptors&) = delete;
  ~WithoutStandardDescriptors() {
    for (int fd = 0; fd < 3; ++fd) {
      const int saved = saved_.at(static_cast<std::size_t>(fd));
      if (saved < 0) continue;
      ::dup2(saved, fd);
      ::close(saved);
    }
  }

 private:
  std::array<int, 3> saved_{};
};

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST_CASE("no Descriptor takes the number of a closed standard descriptor", "[descriptor]") {
  std::array<int, 3> numbers{};
  std::array<bool, 3> taken{};
  int flags = 0;
  int status = 0;
  {
    const WithoutStandardDescriptors closed;
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const Wakeup wakeup;
    const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    numbers = {socket.get(), wakeup.fd(), file.get()};
    for (int fd = 0; fd < 3; ++fd) taken.at(static_cast<std::size_t>(fd)) = is_open(fd);
    flags = ::fcntl(socket.get(), F_GETFD);
    status = ::fcntl(socket.get(), F_GETFL);
  }
  for (const int number : numbers) CHECK(number > 2);
  for (const bool is_taken : taken) CHECK_FALSE(is_taken);
  CHECK((flags & FD_CLOEXEC) != 0);
  CHECK((status & O_NONBLOCK) != 0);
}

TEST_CASE("without a free number above the standard ones construction fails with errno",
          "[descriptor]") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  bool made = true;
  bool leaked = true;
  int reason = 0;
  {
    const WithoutStandardDescriptors closed;
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    rlimit none = before;
    none.rlim_cur = 3;
    ::setrlimit(RLIMIT_NOFILE, &none);
    const Descriptor descriptor(fd);
    reason = errno;
    ::setrlimit(RLIMIT_NOFILE, &before);
    made = static_cast<bool>(descriptor);
    leaked = is_open(fd);
  }
  CHECK_FALSE(made);
  CHECK_FALSE(leaked);
  // The requested number is not below the limit.
  CHECK((reason == EMFILE || reason == EINVAL));
}

}  // namespace
}  // namespace tutti::test
