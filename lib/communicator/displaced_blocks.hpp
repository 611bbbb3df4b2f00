#pragma once

#include "base/checked_collective.hpp"
#include "engine/task.hpp"

namespace tutti {

/// True if blocks of this rank's buffers have displacements.
[[nodiscard]] bool is_displaced(const CheckedCollective& call);

/// A v-form with displaced blocks as one whose blocks are in rank order without gaps, as schedules
/// know them: other ranks may have other displacements, and the schedule is the same. Blocks to
/// send are copied into task.packed. Blocks are received there, too, and task.work.unpacking says
/// where they go in the end.
[[nodiscard]] CheckedCollective packed(const CheckedCollective& call, int rank, engine::Task& task);

}  // namespace tutti
