#pragma once

#include <cstdint>

#include "rendezvous/peers.hpp"

namespace tutti::control {

/// File descriptors that a rank needs beside those it had open before: its listening sockets, its
/// control links, data links of the algorithms that reach O(log n) peers, and a few of our own.
[[nodiscard]] std::int64_t needed_descriptors(const rendezvous::Peers& peers, int rank);

/// What this rank's limit leaves over beyond that.
[[nodiscard]] std::int64_t spare_descriptors(const rendezvous::Peers& peers);

/// Throws Error{system}, the same on every rank, where a rank's limit is too low.
void require_descriptors(const rendezvous::Peers& peers);

}  // namespace tutti::control
