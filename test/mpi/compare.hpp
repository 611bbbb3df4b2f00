#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

/// Makes the same call with tutti and MPI on the same input. All ranks draw the same cases. The
/// rank with a difference reports it with the parameters of the case.
namespace tutti::test {

/// Communicators of both libraries with the same ranks.
struct Pair {
  Communicator* ours = nullptr;
  MPI_Comm theirs = MPI_COMM_NULL;
};

struct Case {
  Operation operation = Operation::none;
  Type type = Type::u8;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
  bool async = false;
  std::size_t offset = 0;  ///< of tutti's buffers from an aligned address, in bytes
  /// Elements of the whole buffer or of a block; v-forms: of each rank's block.
  std::size_t count = 0;
  std::vector<std::size_t> counts;
  bool displaced = false;  ///< v-forms: each rank has displacements of its own
  std::uint64_t seed = 0;  ///< of the test data
};

[[nodiscard]] std::string describe(const Case& one, int size);

/// A call that MPI has completed and tutti has started.
class Comparison {
 public:
  /// Makes MPI's call, and makes or starts tutti's.
  Comparison(const Pair& pair, const Case& one);
  /// Completes tutti's call. Returns the difference; empty if there is none.
  [[nodiscard]] std::string finish();

 private:
  struct Sides {
    std::size_t send = 0;  ///< elements that this rank sends…
    std::size_t recv = 0;  ///< …and receives
  };
  [[nodiscard]] Sides sides() const;
  [[nodiscard]] std::size_t block(int rank) const;
  void place_blocks();
  /// First element of a rank's block in the buffer of all blocks.
  [[nodiscard]] std::size_t begin_of(int rank) const {
    return places_.begins[static_cast<std::size_t>(rank)];
  }
  void fill_input();
  [[nodiscard]] bool multiplies() const;
  void run_theirs();
  void run_their_collective(const void* send, void* recv);
  void run_ours();
  [[nodiscard]] std::string compare_bytes(const std::byte* ours, const std::byte* theirs,
                                          std::size_t elements, const char* what) const;
  [[nodiscard]] std::string compare_16_bit(const std::byte* ours, std::size_t elements) const;

  Pair pair_;
  Case case_;
  int rank_ = 0;
  int size_ = 1;
  struct Places {
    std::vector<std::size_t> begins;
    std::size_t end = 0;  ///< length of the buffer
  };
  Places places_;
  Places recv_places_;               ///< all_to_all_v
  std::vector<std::byte> input_;     ///< this rank's input
  std::vector<std::byte> expected_;  ///< MPI's result; f64 values for 16-bit reductions
  /// A buffer of tutti's, with guard bytes before and behind.
  struct Memory {
    std::vector<std::byte> own;
    Allocation<std::byte> allocated;
    std::span<std::byte> bytes;  ///< points into one of the two
  };
  [[nodiscard]] Memory make_memory(std::size_t bytes, bool allocated) const;
  Memory send_;
  Memory recv_;
  std::byte* send_at_ = nullptr;
  std::byte* recv_at_ = nullptr;
  std::vector<std::size_t> recv_counts_;
  Work work_;
};

/// Whether MPI supports this combination, or there is a reference for it.
[[nodiscard]] bool comparable(Operation operation, Type type, Operator op);

}  // namespace tutti::test
