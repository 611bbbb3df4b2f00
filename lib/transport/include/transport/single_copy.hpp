#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/environment.hpp"

/// Reads of another rank's memory by process_vm_readv ("single copy").
namespace tutti::transport {

using Nonce = std::array<std::uint64_t, 2>;

/// Published in the shared segment: how the other ranks of the host read this rank's memory.
struct MemoryAccess {
  std::atomic<std::int32_t> pid;            ///< 0: they may not
  std::atomic<std::uint32_t> reads_others;  ///< not 0: this rank can read all others
  std::uint64_t witness;                    ///< address of the rank's Witness
  Nonce nonce;
};

/// In a rank's own memory. Readers read it after the data, in the same system call: it proves that
/// the process is the one that published its pid, and that its calls have not been abandoned.
struct Witness {
  Nonce nonce{};
  std::atomic<std::uint64_t> revoked{0};
};

class SingleCopy {
 public:
  enum class Result : std::uint8_t {
    read,
    refused,  ///< by the kernel, as errno says: use another way
    gone,     ///< the process ended, or abandoned its calls after a failure, which will be reported
  };

  /// `all` has one entry for each local rank; it must outlive this object.
  SingleCopy(std::vector<MemoryAccess*> all, int local_rank);
  SingleCopy(const SingleCopy&) = delete;
  SingleCopy& operator=(const SingleCopy&) = delete;
  ~SingleCopy();

  /// Lets the other ranks read this process's memory, as far as the kernel does.
  void publish(SingleCopyUse use);
  /// Tries to read the witness of every other rank, once all have published. Returns why that
  /// failed; empty on success. Without success nobody reads.
  [[nodiscard]] std::string probe();

  /// True if single copy is used without measuring whether it is faster.
  [[nodiscard]] bool is_forced() const { return use_ == SingleCopyUse::always; }
  /// True if that rank can read this one's memory.
  [[nodiscard]] bool is_read_by(int local_rank) const {
    return witness_ != nullptr && reads_others(local_rank);
  }
  [[nodiscard]] bool reads_others(int local_rank) const {
    return access_[static_cast<std::size_t>(local_rank)]->reads_others.load(
               std::memory_order_relaxed) != 0;
  }
  /// True if the kernel lets others read this memory of this process: not so memory of devices.
  /// Looks at both ends only.
  [[nodiscard]] bool is_readable(const std::byte* memory, std::size_t bytes) const;

  /// Copies a rank's memory. `to` is undefined unless the result is `read`.
  [[nodiscard]] Result read(int local_rank, std::byte* to, std::uint64_t address,
                            std::size_t bytes) const;
  /// The memory of this rank's calls is about to be reused, though others may still read it: they
  /// must not take it for data.
  void revoke();

 private:
  struct Target {
    int pid = 0;
    std::uint64_t witness = 0;
    Nonce nonce{};
  };
  [[nodiscard]] Result read_witness(const Target& target) const;

  std::vector<MemoryAccess*> access_;
  std::vector<Target> targets_;  ///< filled by probe()
  int local_rank_;
  int owner_;  ///< process id
  SingleCopyUse use_ = SingleCopyUse::off;
  std::unique_ptr<Witness> witness_;
};

}  // namespace tutti::transport
