#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "call_spec.hpp"

namespace tutti::app {

/// Result of a check.
struct CheckResult {
  std::size_t elements = 0;
  std::string first;  ///< "element 17 is 3, expected 5"
};

/// Test data that identifies its origin: an infinite sequence of elements for each rank, or the
/// reduction of all ranks' sequences. The period is a prime number of elements, so data that is off
/// by a block or a chunk is detected.
///
/// Operations that only move data use all bits. For reductions, the values are such that every
/// order of the same additions or multiplications gives the same, exact result in the type.
class Pattern {
 public:
  /// The input of `rank`. Only the first `elements` are used.
  static Pattern of_rank(const CallSpec& spec, int rank, std::size_t elements);
  /// The reduction of all ranks' inputs; of a scan, the result of `spec.rank`.
  static Pattern reduced(const CallSpec& spec, std::size_t elements);

  /// Writes elements [first, first + count) of the sequence.
  void fill(std::byte* to, std::size_t first, std::size_t count) const;
  /// Counts the elements of `found` that differ from the sequence in `wrong`. In its text, element
  /// i is number `name_of_first` + i.
  void compare(const std::byte* found, std::size_t first, std::size_t count,
               std::size_t name_of_first, CheckResult& wrong) const;

  /// Elements.
  static constexpr std::size_t period = 65521;

 private:
  Pattern(const CallSpec& spec, std::size_t elements);
  void compare_piece(const std::byte* found, std::size_t at, std::size_t count,
                     std::size_t name_of_first, CheckResult& wrong) const;

  Type type_;
  std::size_t size_;
  double tolerance_ = 0;  ///< allowed absolute difference of two values
  std::vector<std::byte> image_;
};

}  // namespace tutti::app
