#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pattern.hpp"

namespace tutti::app {

/// Test data of one rank's call, in host memory.
class TestData {
 public:
  explicit TestData(const CallSpec& spec);

  /// Writes this rank's input and fills the rest with poison. The spans have the lengths of the
  /// layout.
  void fill(std::span<std::byte> send, std::span<std::byte> recv) const;
  /// Compares every element of the result. If `input_too`, it also compares the input, unless the
  /// result overwrites it.
  [[nodiscard]] CheckResult check(std::span<const std::byte> send, std::span<const std::byte> recv,
                                  bool input_too = true) const;

 private:
  void check_result(const std::byte* result, CheckResult& wrong) const;

  CallSpec spec_;
  Shape shape_;
  BufferLayout layout_;
  Pattern input_;
  std::optional<Pattern> reduced_;
};

}  // namespace tutti::app
