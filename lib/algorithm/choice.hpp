#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithm/schedule.hpp"

/// Which algorithm a call uses, and the way from its name to its schedule.
namespace tutti::algorithm {

/// The choice looks only at what all ranks know alike. `bytes` is the size of the whole buffer.
[[nodiscard]] std::string_view choose_fan_out(int size, std::int64_t bytes);
[[nodiscard]] std::string_view choose_broadcast(int size, std::int64_t bytes);
[[nodiscard]] std::string_view choose_all_reduce(int size, std::int64_t bytes);
[[nodiscard]] std::string_view choose_barrier(int size);

/// All names that the make_ functions below know.
[[nodiscard]] std::span<const std::string_view> fan_out_algorithms();
[[nodiscard]] std::span<const std::string_view> broadcast_algorithms();
[[nodiscard]] std::span<const std::string_view> all_reduce_algorithms();
[[nodiscard]] std::span<const std::string_view> barrier_algorithms();

/// Throw std::invalid_argument for a name that the operation does not know; the text lists those it
/// does.
[[nodiscard]] Schedule make_fan_out(std::string_view algorithm, const Problem& problem);
[[nodiscard]] Schedule make_broadcast(std::string_view algorithm, const Problem& problem);
[[nodiscard]] Schedule make_all_reduce(std::string_view algorithm, const Problem& problem);
[[nodiscard]] Schedule make_barrier(std::string_view algorithm, const Problem& problem);

}  // namespace tutti::algorithm
