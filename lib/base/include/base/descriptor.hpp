#pragma once

#include <optional>
#include <utility>

#include "base/fork_guard.hpp"

namespace tutti {

/// Owns a file descriptor; -1: none. Never 0 to 2: a program that has closed these may still write
/// to them, and the text must not reach a peer.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes `fd`; replaces 0 to 2 by a duplicate above them. -1 and errno if that fails.
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
  /// Closes it in children forked from now on.
  void close_on_fork();

 private:
  static int above_standard(int fd) noexcept;
  int fd_ = -1;
  std::optional<fork_guard::Generation> guarded_;
};

/// An eventfd to wake another thread's poll.
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
