#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "tutti/communicator.hpp"

namespace tutti::gpu_test {

/// Memory of this rank's device, freed at the end.
class DeviceBuffer {
 public:
  DeviceBuffer(device::DeviceMemory& memory, std::size_t bytes);
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void upload(const std::vector<std::byte>& bytes, std::size_t offset = 0);
  /// Fills it with what no operation writes.
  void poison();
  [[nodiscard]] std::vector<std::byte> download() const;

 private:
  device::DeviceMemory& memory_;
  std::size_t bytes_;
  std::byte* data_;
};

/// One collective on device memory.
struct Case {
  Operation operation = Operation::all_reduce;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
  bool started = false;   ///< by start() and wait()
  std::size_t count = 0;  ///< elements of a block, or of the whole; v-forms: of the first block

  [[nodiscard]] std::string text() const;
};

/// Every collective operation with each of these counts: from each of `roots`, apart and in place,
/// called and started. Types and operators change from case to case, so that all come up.
[[nodiscard]] std::vector<Case> operation_cases(const std::vector<std::size_t>& counts,
                                                const std::vector<int>& roots);
/// Every type and operator that NCCL reduces, by all_reduce, reduce and reduce_scatter; with
/// `small_floats` the 8-bit ones, too.
[[nodiscard]] std::vector<Case> arithmetic_cases(std::size_t count, bool small_floats);

/// Runs one on random data with poisoned outputs and compares each element; empty if all is right.
/// Collective.
[[nodiscard]] std::string check(Communicator& communicator, device::DeviceMemory& memory,
                                const Case& one, std::uint64_t seed);
/// Messages round the ring, of each count, called and started.
[[nodiscard]] std::string check_messages(Communicator& communicator, device::DeviceMemory& memory,
                                         const std::vector<std::size_t>& counts);

}  // namespace tutti::gpu_test
