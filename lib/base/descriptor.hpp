#pragma once

#include <utility>

namespace tutti {

/// Owns a file descriptor; -1 owns none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
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
