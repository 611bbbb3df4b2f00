#pragma once

#include <cstdint>

#include "rendezvous/peers.hpp"

namespace tutti::control {

/// Number of file descriptors that a rank needs in addition to those open before: listening
/// sockets, control links, data links of algorithms with O(log n) peers, and a few internal ones.
[[nodiscard]] std::int64_t needed_descriptors(const rendezvous::Peers& peers, int rank);

/// Descriptors left within this rank's limit after those.
[[nodiscard]] std::int64_t spare_descriptors(const rendezvous::Peers& peers);

/// Throws Error{system}, the same on every rank, if a rank's limit is too low.
void require_descriptors(const rendezvous::Peers& peers);

}  // namespace tutti::control
