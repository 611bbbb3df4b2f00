#pragma once

#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Extent of one of a rank's two buffers.
enum class Extent : std::uint8_t {
  none,
  one,  ///< `count` elements: the whole buffer, or one rank's block
  all,  ///< one block per rank, in rank order
};

/// Properties of an operation, for argument checks, copies, benchmarks and documentation.
struct Shape {
  Extent send = Extent::none;
  Extent recv = Extent::none;
  bool rooted = false;
  bool send_at_root_only = false;
  bool recv_at_root_only = false;
  bool reduces = false;
  bool counts_differ = false;  ///< a v-form
  /// Rank r gets the reduction of the ranks up to r; with `exclusive` of those below r, and rank 0
  /// gets nothing.
  bool scans = false;
  bool exclusive = false;
  bool collective = true;
  bool for_users = true;  ///< not a step of the library's own
};

[[nodiscard]] const Shape& shape_of(Operation operation) noexcept;

/// The type of the two parts of a complex number; of another type itself.
[[nodiscard]] Type part_of(Type type) noexcept;

/// Where reductions are computed.
enum class Path : std::uint8_t { host, device };

/// True if the combination is supported. On devices 8-bit floats also need a recent NCCL and GPU,
/// which is checked there.
[[nodiscard]] bool supported(Path path, Operation operation, Type type, Operator op) noexcept;

}  // namespace tutti
