#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "call_spec.hpp"

namespace tutti::app {

/// Result of a check.
struct CheckResult {
  std::size_t elements = 0;
  std::string first;  ///< "element 17 is 3 where 5 is due"
};

/// Data that says where it came from: an endless sequence of elements for each rank, or the
/// reduction of all ranks' sequences. It repeats after a prime number of elements, so that a piece
/// that lies a block or a chunk off does not look right.
///
/// Where data is only moved, all bits are used. Where it is reduced, values are such that each
/// order of the same additions or multiplications gives the same, exact result in the type.
class Pattern {
 public:
  /// What rank `rank` contributes. At most the first `elements` are asked for.
  static Pattern of_rank(const CallSpec& spec, int rank, std::size_t elements);
  /// What all ranks' contributions come to.
  static Pattern reduced(const CallSpec& spec, std::size_t elements);

  /// Writes elements first, first + 1, … of the sequence.
  void fill(std::byte* to, std::size_t first, std::size_t count) const;
  /// Adds to `wrong` what differs from them; element i is called `name_of_first` + i.
  void compare(const std::byte* found, std::size_t first, std::size_t count,
               std::size_t name_of_first, CheckResult& wrong) const;

  /// Elements after which it repeats.
  static constexpr std::size_t period = 65521;

 private:
  Pattern(const CallSpec& spec, std::size_t elements);
  void compare_piece(const std::byte* found, std::size_t at, std::size_t count,
                     std::size_t name_of_first, CheckResult& wrong) const;

  Type type_;
  std::size_t size_;
  double tolerance_ = 0;  ///< accepted difference of two values
  std::vector<std::byte> image_;
};

}  // namespace tutti::app
