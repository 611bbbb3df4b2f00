#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "tutti/communicator.hpp"

namespace tutti::gpu_test {

/// Device memory of this rank, freed by the destructor.
class DeviceBuffer {
 public:
  /// `offset`: bytes from the begin of the allocation.
  DeviceBuffer(device::DeviceMemory& memory, std::size_t bytes, std::size_t offset = 0);
  /// The same, from `communicator`'s allocate_device(). Collective; offsets may differ by a few
  /// hundred bytes.
  DeviceBuffer(Communicator& communicator, device::DeviceMemory& memory, std::size_t bytes,
               std::size_t offset = 0);
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void upload(const std::vector<std::byte>& bytes, std::size_t offset = 0);
  /// Fills it with a value that no operation produces.
  void poison();
  [[nodiscard]] std::vector<std::byte> download() const;

 private:
  device::DeviceMemory& memory_;
  std::size_t bytes_;
  std::size_t offset_;
  DeviceAllocation<std::byte> allocation_;
  std::byte* data_;
};

/// One collective on device buffers.
struct Case {
  Operation operation = Operation::all_reduce;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
  bool started = false;  ///< with start() and wait()
  /// Elements of a block or of the whole buffer; v-forms: of the first block.
  std::size_t count = 0;
  /// Elements from the begin of the allocation to each buffer.
  std::size_t offset = 0;
  bool in_windows = false;  ///< the memory is from allocate_device()

  [[nodiscard]] std::string text() const;
};

/// Every collective with each of these counts and `roots`, out-of-place and in-place, blocking and
/// non-blocking. Types and operators alternate, so that all are used.
[[nodiscard]] std::vector<Case> operation_cases(const std::vector<std::size_t>& counts,
                                                const std::vector<int>& roots);
/// Every type and operator that NCCL reduces, with all_reduce, reduce and reduce_scatter;
/// `small_floats` adds the 8-bit floats.
[[nodiscard]] std::vector<Case> arithmetic_cases(std::size_t count, bool small_floats);

/// A random call that the direct path takes, on a buffer of up to `most_bytes`: most are small.
/// `types`: the first of them in the order of Type.
[[nodiscard]] Case random_direct_case(std::mt19937_64& random, int ranks, int types,
                                      std::size_t most_bytes);

/// Runs one case on random data with poisoned outputs and compares every element. Empty if correct.
/// Collective.
[[nodiscard]] std::string check(Communicator& communicator, device::DeviceMemory& memory,
                                const Case& one, std::uint64_t seed);
/// `calls` calls on two streams, alternating, each queued before any is waited for. Empty if all
/// are correct. Collective.
[[nodiscard]] std::string check_burst(Communicator& communicator, device::DeviceMemory& first,
                                      device::DeviceMemory& second, int calls);
/// Memory from allocate_device(): zeroed, used again once all ranks have dropped it, refused if the
/// ranks differ. Empty if correct. Collective.
[[nodiscard]] std::string check_allocations(Communicator& communicator,
                                            device::DeviceMemory& memory);
/// Messages around the ring with each count, blocking and non-blocking.
[[nodiscard]] std::string check_messages(Communicator& communicator, device::DeviceMemory& memory,
                                         const std::vector<std::size_t>& counts);

}  // namespace tutti::gpu_test
