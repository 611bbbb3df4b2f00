#pragma once

#include <cstdint>

/// Descriptors to close in forked children. A long-lived child (such as a data loader's worker)
/// would keep a dead rank's connections open, and the other ranks would wait for a close that never
/// comes. Linux can close descriptors at exec, not at fork, so a handler of pthread_atfork() closes
/// them in the child. The list is per process, like descriptors and handlers. Children made by
/// clone() or _Fork() directly keep the descriptors.
namespace tutti::fork_guard {

/// Number of forks between the process that created the list and this one.
using Generation = std::uint32_t;

/// Registers `fd` to be closed in forked children. Throws std::bad_alloc, or Error{system} if the
/// handlers cannot be installed.
Generation add(int fd);

/// Unregisters `fd`. False in a child forked since add(): the descriptor is closed there, and its
/// number may be in use again.
[[nodiscard]] bool remove(int fd, Generation generation) noexcept;

}  // namespace tutti::fork_guard
