#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pattern.hpp"

namespace tutti::app {

/// One rank's test data of a call, in host memory: fills the input, checks the result.
class TestData {
 public:
  explicit TestData(const CallSpec& spec);

  /// Writes this rank's input and poisons the rest. The spans are as long as the layout says.
  void fill(std::span<std::byte> send, std::span<std::byte> recv) const;
  /// Compares every element of the result and, if `input_too`, of an input that no result
  /// overwrites.
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
