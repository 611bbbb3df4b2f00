#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/calls.hpp"
#include "tutti/operation.hpp"

/// The tuning file: what `tutti tune` has measured, and what set-up reads.
namespace tutti::device {

/// Operations that the direct path takes up to a size, and NCCL beyond it.
inline constexpr std::array tuned_operations{Operation::broadcast, Operation::fan_out,
                                             Operation::all_reduce, Operation::all_gather,
                                             Operation::reduce_scatter};

/// By tuned operation: up to how many bytes a call takes the direct path; 0: never. Bytes as
/// `tutti bench` counts them: one rank's block of all_gather and reduce_scatter, else the buffer.
using TunedLimits = std::array<std::uint64_t, tuned_operations.size()>;

/// What measured limits hold for.
struct TuningKey {
  std::string card;    ///< "NVIDIA H200"; of ranks with different ones all names, "A + B"
  std::string driver;  ///< CUDA version of the driver, "13.0"
  std::string nccl;    ///< "2.28.3"
  int ranks = 0;

  friend bool operator==(const TuningKey&, const TuningKey&) = default;
  /// "2 ranks on NVIDIA H200, driver for CUDA 13.0, NCCL 2.28.3"
  [[nodiscard]] std::string text() const;
};

/// `cards`: the name of each rank's GPU. `nccl_version` in NCCL's numbering.
[[nodiscard]] TuningKey make_tuning_key(const std::vector<std::string>& cards,
                                        const CudaCalls& cuda, int nccl_version);

struct TuningEntry {
  TuningKey key;
  TunedLimits limits{};
  /// On memory from Communicator::allocate_device(), in windows. Files of earlier versions have
  /// none: then 0.
  TunedLimits windows{};

  friend bool operator==(const TuningEntry&, const TuningEntry&) = default;
};

/// A file's content, or what is wrong with it.
struct Tuning {
  std::vector<TuningEntry> entries;
  /// "line 2 is no entry of `tutti tune`"; empty if the file is good or not there. There are no
  /// entries then.
  std::string problem;
  bool is_there = false;

  /// Null if there is none.
  [[nodiscard]] const TuningEntry* find(const TuningKey& key) const;
};

/// One JSON object a line, so that a problem has a line.
[[nodiscard]] Tuning parse_tuning(std::string_view text);
[[nodiscard]] std::string tuning_text(const std::vector<TuningEntry>& entries);

/// Throws nothing.
[[nodiscard]] Tuning read_tuning(const std::string& path);
/// Replaces the entry with the same key or adds one. Readers see the old file or the new one. A
/// file that can't be read is replaced. Makes the folder. Throws Error{system}.
void write_tuning(const std::string& path, const TuningEntry& entry);

}  // namespace tutti::device
