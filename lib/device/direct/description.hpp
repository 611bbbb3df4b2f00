#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked_collective.hpp"
#include "call.hpp"

/// A collective call as the kernels get it.
namespace tutti::device::direct {

/// Without what depends on the group's memory: staging, places, turn and the flag.
[[nodiscard]] Call describe(const CheckedCollective& call, int rank, int size);

/// The buffers that peers access by windows: their begin and, in bytes, their length. Null where
/// there is none.
struct Accessed {
  const void* send = nullptr;
  std::size_t send_bytes = 0;
  const void* recv = nullptr;
  std::size_t recv_bytes = 0;
};
[[nodiscard]] Accessed accessed(const CheckedCollective& call, int size);

/// How a kernel is launched; the same on all ranks of a call.
struct LaunchShape {
  std::uint64_t share;  ///< Call::share
  unsigned channels;    ///< thread blocks
  unsigned threads;     ///< of a block
};
[[nodiscard]] LaunchShape launch_shape(Protocol protocol, Operation operation, const Call& call);

}  // namespace tutti::device::direct
