#pragma once

#include <optional>
#include <utility>

#include "base/fork_guard.hpp"

namespace tutti {

/// Owns a file descriptor; -1 owns none. Never one of the standard three: a program that has closed
/// its own may still write to their numbers, and such text must not go to a peer.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes `fd`, in place of 0 to 2 a duplicate above them; -1 with errno set where there is none.
  explicit Descriptor(int fd) : fd_(fd >= 0 && fd <= 2 ? above_standard(fd) : fd) {}
  Descriptor(Descriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), guarded_(std::exchange(other.guarded_, {})) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      guarded_ = std::exchange(other.guarded_, {});
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  void reset() noexcept;
  /// Forked children do not hold it from now on.
  void close_on_fork();

 private:
  static int above_standard(int fd) noexcept;
  int fd_ = -1;
  std::optional<fork_guard::Generation> guarded_;
};

/// Wakes another thread's poll: an eventfd.
class Wakeup {
 public:
  Wakeup();
  [[nodiscard]] int fd() const { return fd_.get(); }
  void signal() const noexcept;
  void clear() const noexcept;

 private:
  Descriptor fd_;
};

}  // namespace tutti
