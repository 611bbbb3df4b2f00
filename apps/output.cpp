#include "output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/system_error.hpp"

namespace tutti::app {
namespace {

/// Returns 0, or the errno of the write that failed.
int write_fully(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const auto written = ::write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Another process may have set O_NONBLOCK on the pipe: wait until it is writable.
      pollfd waiting{.fd = descriptor, .events = POLLOUT, .revents = 0};
      if (::poll(&waiting, 1, -1) < 0 && errno != EINTR) return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void open_closed_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor, and all lower ones are open here.
    ::open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  }
}

/// Installs an empty handler for SIGPIPE: exec() would keep SIG_IGN, but resets a handler.
void ignore_sigpipe() {
  struct sigaction current {};
  if (::sigaction(SIGPIPE, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, nullptr);
}

const char* remedy_for(int number) {
  return number == EPIPE ? "the reader has exited: let it read to the end, or write to a file"
                         : "the output is incomplete: write it to a file system with free space";
}

}  // namespace

void prepare_standard_streams() {
  open_closed_descriptors();
  ignore_sigpipe();
}

void print(std::string_view text) {
  const int number = write_fully(STDOUT_FILENO, text);
  if (number == 0) return;
  throw Error(ErrorCode::system, fmt::format("can't write the output: {}; {}", errno_text(number),
                                             remedy_for(number)));
}

void print_error_text(std::string_view text) noexcept {
  (void)write_fully(STDERR_FILENO, text);
}

void print_error(std::string_view sentence) noexcept {
  // A single write(), so that lines of several ranks do not interleave.
  print_error_text(fmt::format("tutti: {}\n", sentence));
}

}  // namespace tutti::app
