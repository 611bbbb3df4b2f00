#pragma once

#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// How much of the data one of a rank's two buffers holds.
enum class Extent : std::uint8_t {
  none,
  one,  ///< `count` elements: the whole buffer, or one rank's block
  all,  ///< a block a rank, in the order of ranks
};

/// What an operation looks like to those who check, copy, benchmark or document it: the one table.
struct Shape {
  Extent send = Extent::none;
  Extent recv = Extent::none;
  bool rooted = false;
  bool send_at_root_only = false;
  bool recv_at_root_only = false;
  bool reduces = false;
  bool counts_differ = false;  ///< a v-form
  bool collective = true;
};

[[nodiscard]] const Shape& shape_of(Operation operation) noexcept;

/// Who does the arithmetic.
enum class Path : std::uint8_t { host, device };

/// Whether a combination exists. On devices 8-bit floats also need a new NCCL and a new GPU, which
/// only they can tell.
[[nodiscard]] bool supported(Path path, Operation operation, Type type, Operator op) noexcept;

}  // namespace tutti
