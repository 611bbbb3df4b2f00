#pragma once

#include <cstddef>

#include "base/shape.hpp"
#include "tutti/collective.hpp"

namespace tutti::app {

/// Arguments of one call on one rank, without addresses.
struct CallSpec {
  Operation operation = Operation::none;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
  bool allocated = false;  ///< buffers are from Communicator::allocate()
  bool on_nccl = false;    ///< NCCL runs the call
  /// The test data of an integer sum may overflow and wrap around. False if a peer saturates
  /// instead.
  bool wraps = true;
  /// Elements of the whole buffer, or of one block if the buffer has one block per rank.
  std::size_t count = 0;
  int rank = 0;
  int ranks = 1;
};

/// shape_of() of the operation, except that send_recv has a send and a receive buffer on every
/// rank.
[[nodiscard]] Shape shape_of(const CallSpec& spec);

/// The smallest count whose bytes_of() is at least `bytes`. Throws Error{usage} if the larger
/// buffer exceeds the address space.
[[nodiscard]] std::size_t count_for(const CallSpec& spec, std::size_t bytes);
/// The `--size` of the call in bytes: one rank's input; for all_gather and gather one rank's
/// contribution; for reduce_scatter and scatter one rank's result.
[[nodiscard]] std::size_t bytes_of(const CallSpec& spec);

/// Sizes and offsets of this rank's input and result, in elements. They are in a send and a receive
/// buffer, or both in the receive buffer.
struct BufferLayout {
  std::size_t send_elements = 0;  ///< length of the send buffer
  std::size_t recv_elements = 0;  ///< length of the receive buffer, or of the shared buffer
  bool shared = false;
  bool has_input = false;
  bool has_result = false;
  std::size_t input_elements = 0;
  std::size_t input_at = 0;
  std::size_t result_elements = 0;
  std::size_t result_at = 0;
};
[[nodiscard]] BufferLayout buffer_layout_of(const CallSpec& spec);

/// Whether input and result share a buffer, on the ranks where the operation allows it.
[[nodiscard]] bool is_in_place(const CallSpec& spec);

/// Ring neighbours in send_recv: this rank sends to next_of() and receives from previous_of().
[[nodiscard]] int next_of(const CallSpec& spec);
[[nodiscard]] int previous_of(const CallSpec& spec);

/// The factor of a rank in a premultiplied sum, from 1 to `max_factor`.
inline constexpr int max_factor = 3;
[[nodiscard]] constexpr int factor_of(int rank) {
  return 1 + rank % max_factor;
}

/// The result of a reduction is that of ranks 0 to reduced_ranks() - 1.
[[nodiscard]] int reduced_ranks(const CallSpec& spec);

/// The same call as a public Collective. Not for send_recv and barrier.
[[nodiscard]] Collective collective_of(const CallSpec& spec, const void* send, void* recv);

}  // namespace tutti::app
