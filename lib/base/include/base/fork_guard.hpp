#pragma once

#include <cstdint>

/// Descriptors that a forked child must not hold. A child that lives on (a data loader's worker,
/// say) would keep the connections of a rank open that has died, and the other ranks would wait for
/// a close that never comes. Linux can close descriptors at exec, not at fork, so a handler of
/// pthread_atfork() closes them in the child. The list is the process's own, as its descriptors and
/// its handlers are. A child that is made by clone() or _Fork() directly keeps them.
namespace tutti::fork_guard {

/// Counts the forks between the process in which the list began and this one.
using Generation = std::uint32_t;

/// Has `fd` closed in children. Throws std::bad_alloc, or Error{system} where the handlers can't be
/// installed.
Generation add(int fd);

/// Forgets `fd`. False in a child made since add(): there it is closed, and the number may be
/// another descriptor's.
[[nodiscard]] bool remove(int fd, Generation generation) noexcept;

}  // namespace tutti::fork_guard
