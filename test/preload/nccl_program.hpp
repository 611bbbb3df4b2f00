#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/cases.hpp"
#include "nccl_functions.hpp"
#include "support/fork_ranks.hpp"
#include "tutti/types.hpp"

/// What a program does that knows NCCL only: a device for each rank, communicators, calls whose
/// results are compared.
namespace tutti::preload_test {

// NCCL's numbers.
inline constexpr int f32 = 7;
inline constexpr int i32 = 2;
inline constexpr int nccl_sum = 0;
inline constexpr int nccl_average = 4;

using device::DeviceMemory;
using gpu_test::DeviceBuffer;
using test::Rank;

/// Throws std::runtime_error with NCCL's last message for a result other than success and, of
/// non-blocking communicators, ncclInProgress.
void check(int result, const char* doing);
/// The same for a result of the CUDA driver.
void check_cuda(int result, const char* doing);

/// An NCCL communicator; destroyed by the destructor unless release() is called.
class NcclComm {
 public:
  /// Of all ranks of the job. Collective.
  explicit NcclComm(Rank& rank);
  /// The same, non-blocking; waits until it is ready.
  [[nodiscard]] static NcclComm nonblocking(Rank& rank);
  NcclComm(void* handle, int rank, int size) : handle_(handle), rank_(rank), size_(size) {}
  NcclComm(NcclComm&& other) noexcept;
  NcclComm& operator=(NcclComm&&) = delete;
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;
  ~NcclComm();

  /// Waits until a non-blocking communicator has queued its latest call.
  void wait() const;
  [[nodiscard]] void* handle() const { return handle_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// `place` and `size`: this rank's in the result.
  [[nodiscard]] NcclComm split(int color, int key, int place, int size) const;
  void* release();

 private:
  void* handle_ = nullptr;
  bool is_blocking_ = true;
  int rank_ = 0;
  int size_ = 1;
};

enum class Kind { all_reduce, broadcast, bcast, all_gather, reduce_scatter, reduce, send_recv };
inline constexpr int kinds = 7;

/// One call on poisoned buffers.
struct Call {
  Kind kind = Kind::all_reduce;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  bool in_place = false;
  std::size_t count = 0;   ///< elements, of a block where there are blocks
  std::size_t offset = 0;  ///< elements from the begin of the allocation to each buffer

  [[nodiscard]] std::string text() const;
};

/// Queues and checks the call. `in_group`: between ncclGroupStart and ncclGroupEnd. Empty if every
/// element is right. Collective.
[[nodiscard]] std::string run(const NcclComm& comm, DeviceMemory& memory, const Call& call,
                              std::uint64_t seed, bool in_group = false);
/// A call of a random kind on buffers of up to `max_bytes`: most are small.
[[nodiscard]] Call random_call(std::mt19937_64& random, int ranks, std::size_t max_bytes);

/// Whether the devices are simulated, whose kernels lack 16-bit floats.
[[nodiscard]] bool is_simulated();

void synchronize(void* stream);
/// Work on the stream that takes 2.5 s.
void hold_up(void* stream);

/// Throws `wrong` unless it is empty.
inline void require(const std::string& wrong) {
  test::expect(wrong.empty(), wrong);
}

template <class T>
void upload(DeviceBuffer& buffer, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  buffer.upload(bytes);
}

template <class T>
void expect_all(const DeviceBuffer& buffer, T due, const std::string& what) {
  const auto bytes = buffer.download();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T found{};
    std::memcpy(&found, bytes.data() + at, sizeof found);
    test::expect(found == due,
                 fmt::format("{}: element {} is {}, due is {}", what, at / sizeof(T), found, due));
  }
}

}  // namespace tutti::preload_test
