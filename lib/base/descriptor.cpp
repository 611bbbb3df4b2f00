#include "base/descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/system_error.hpp"

namespace tutti {

void Descriptor::reset() noexcept {
  // Unregister before close(): a fork in between would close another descriptor of that number.
  if (fd_ >= 0 && (!guarded_ || fork_guard::remove(fd_, *guarded_))) ::close(fd_);
  fd_ = -1;
  guarded_.reset();
}

void Descriptor::close_on_fork() {
  if (fd_ >= 0 && !guarded_) guarded_ = fork_guard::add(fd_);
}

int Descriptor::above_standard(int fd) noexcept {
  const int above = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return above;
}

Wakeup::Wakeup() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) throw system_error("can't make an eventfd", errno);
}

void Wakeup::signal() const noexcept {
  const std::uint64_t one = 1;
  // write() fails only if the counter is full; then the reader wakes anyway.
  [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
}

void Wakeup::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(fd_.get(), &count, sizeof count);
}

std::string errno_text(int number) {
  return fmt::format("{} (errno {})", std::generic_category().message(number), number);
}

Error system_error(std::string_view what, int number) {
  return {ErrorCode::system, fmt::format("{}: {}", what, errno_text(number))};
}

}  // namespace tutti
