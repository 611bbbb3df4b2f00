#pragma once

#include "communicator/backend.hpp"

namespace tutti {

/// Checks what a caller passes against the operation's shape, as far as one rank can: throws
/// Error{usage} that names the argument, its value and what would fit.
[[nodiscard]] CheckedCollective check_arguments(const Collective& call, int rank, int size);
void check_arguments(const Message& message, int rank, int size);

}  // namespace tutti
