#include "limits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::device::direct {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

/// What rank 0 has found, for all.
struct Found {
  std::uint64_t is_measured = 0;
  Measured measured;
};

Found look_up(const TuningSource& source, std::string& origin) {
  if (source.file.empty()) return {};
  const auto tuning = read_tuning(source.file);
  if (!tuning.is_there) {
    origin = fmt::format("built in: {} is not there", source.file);
    return {};
  }
  if (!tuning.problem.empty()) {
    origin = fmt::format("built in: {} is unusable", source.file);
    if (source.warn) {
      source.warn(fmt::format(
          "{}: {}; the limits between the direct path and NCCL are the built-in ones: run `tutti "
          "tune` again, or delete the file",
          source.file, tuning.problem));
    }
    return {};
  }
  const auto* const entry = tuning.find(source.key);
  if (entry == nullptr) {
    origin = fmt::format("built in: {} has none for {}", source.file, source.key.text());
    return {};
  }
  origin = fmt::format("measured by `tutti tune`, in {}", source.file);
  return {.is_measured = 1, .measured = {.direct = entry->limits, .windows = entry->windows}};
}

}  // namespace

Limits built_in_limits(Operation operation) {
  switch (operation) {
    case Operation::barrier:
      return {.packets = kib, .chunks = 0};
    case Operation::broadcast:
    case Operation::all_gather:
      return {.packets = 256 * kib, .chunks = 4 * mib};
    case Operation::fan_out:
    case Operation::all_reduce:
    case Operation::reduce_scatter:
      return {.packets = 256 * kib, .chunks = 2 * mib};
    default:
      return {};
  }
}

Limits measured_limits(Operation operation, const Measured& measured, int ranks) {
  const auto built_in = built_in_limits(operation);
  const auto* const found = std::find(tuned_operations.begin(), tuned_operations.end(), operation);
  if (found == tuned_operations.end()) return built_in;
  const auto index = static_cast<std::size_t>(found - tuned_operations.begin());
  const auto peers = static_cast<std::size_t>(ranks - 1);
  const auto sent = static_cast<std::size_t>(measured.direct.at(index)) * peers;
  return {.packets = std::min(built_in.packets, sent),
          .chunks = sent,
          .windows = static_cast<std::size_t>(measured.windows.at(index)) * peers};
}

LimitTable::LimitTable() {
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    limits_[i] = built_in_limits(static_cast<Operation>(i));
  }
}

LimitTable::LimitTable(const TuningSource& source, int rank, int ranks, SetupExchange& setup)
    : LimitTable() {
  Found found;
  if (rank == 0) found = look_up(source, origin_);
  setup.broadcast(&found, sizeof found);
  if (found.is_measured == 0) return;
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    limits_[i] = measured_limits(static_cast<Operation>(i), found.measured, ranks);
  }
  if (rank != 0) origin_ = "measured by `tutti tune`";
}

}  // namespace tutti::device::direct
