#pragma once

#include <cstddef>

#include "base/shape.hpp"
#include "tutti/collective.hpp"

namespace tutti::app {

/// One call of an operation as one rank sees it, apart from addresses.
struct CallSpec {
  Operation operation = Operation::none;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
  bool allocated = false;  ///< buffers are from Communicator::allocate()
  bool on_nccl = false;    ///< who computes
  /// Integer sums of its data may wrap around, as ours do; other libraries' may saturate.
  bool wraps = true;
  /// Elements of the whole buffer, or of one rank's block where a buffer has a block a rank.
  std::size_t count = 0;
  int rank = 0;
  int ranks = 1;
};

/// As shape_of() has it; a message that each rank sends and receives has one buffer of each kind.
[[nodiscard]] Shape shape_of(const CallSpec& spec);

/// The least count whose bytes_of() is at least `bytes`. Throws Error{usage} where memory can't
/// hold the larger buffer.
[[nodiscard]] std::size_t count_for(const CallSpec& spec, std::size_t bytes);
/// What people call the size: one rank's input, for all_gather and gather one rank's contribution,
/// for reduce_scatter and scatter one rank's result.
[[nodiscard]] std::size_t bytes_of(const CallSpec& spec);

/// Where this rank's input and result lie, in elements: in a send and a receive buffer, or both in
/// the receive buffer.
struct BufferLayout {
  std::size_t send_elements = 0;  ///< of the separate send buffer
  std::size_t recv_elements = 0;  ///< of the receive buffer, or of the one that both share
  bool shared = false;
  bool has_input = false;
  bool has_result = false;
  std::size_t input_elements = 0;
  std::size_t input_at = 0;
  std::size_t result_elements = 0;
  std::size_t result_at = 0;
};
[[nodiscard]] BufferLayout buffer_layout_of(const CallSpec& spec);

/// Whether input and result share a buffer, on the ranks where the operation can have it so.
[[nodiscard]] bool is_in_place(const CallSpec& spec);

/// Ranks that send to this one and receive from it in the ring of send_recv.
[[nodiscard]] int next_of(const CallSpec& spec);
[[nodiscard]] int previous_of(const CallSpec& spec);

/// The same as a public Collective, for all operations but send_recv and barrier.
[[nodiscard]] Collective collective_of(const CallSpec& spec, const void* send, void* recv);

}  // namespace tutti::app
