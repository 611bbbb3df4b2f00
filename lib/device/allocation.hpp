#pragma once

#include <cstddef>
#include <memory>

#include "communicator/backend.hpp"
#include "control/failure_detector.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "direct/path.hpp"

namespace tutti::device {

struct AllocationParts {
  control::FailureDetector& detector;
  const control::Group& group;
  std::shared_ptr<const Context> context;
  Backend& host;
  direct::DirectPath* direct = nullptr;  ///< null: the memory is this rank's alone
};

/// Backend::allocate_device(). Throws Error{mismatch} if the ranks ask for different amounts, and
/// AgreedFailure if one has no memory.
[[nodiscard]] std::shared_ptr<void> allocate_together(const AllocationParts& parts,
                                                      std::size_t bytes,
                                                      std::chrono::nanoseconds timeout);

}  // namespace tutti::device
