#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pattern.hpp"

namespace tutti::app {

/// The data of one rank of a problem, in host memory: what goes in, and whether what came out is
/// right.
class Exchange {
 public:
  explicit Exchange(const Problem& problem);

  /// Writes this rank's input and poisons the rest. The spans are as long as the layout says.
  void fill(std::span<std::byte> send, std::span<std::byte> recv) const;
  /// Compares every element of the result and, if `input_too`, of an input that no result
  /// overwrites.
  [[nodiscard]] Wrong check(std::span<const std::byte> send, std::span<const std::byte> recv,
                            bool input_too = true) const;

 private:
  void check_result(const std::byte* result, Wrong& wrong) const;

  Problem problem_;
  Shape shape_;
  Layout layout_;
  Pattern input_;
  std::optional<Pattern> reduced_;
};

}  // namespace tutti::app
