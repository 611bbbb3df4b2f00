#pragma once

#include <memory>
#include <string>

#include "device/calls.hpp"

namespace tutti::device {

/// A shared library and the table of its calls, or the reason why it can't be used.
template <class Calls>
struct Library {
  std::shared_ptr<void> handle;  ///< keeps it loaded
  Calls calls;
  std::string missing;  ///< "libnccl.so.2: cannot open shared object file"; empty if usable
  [[nodiscard]] bool usable() const { return missing.empty(); }
};

/// Resolves the calls one by one, so that old and new releases work; a missing optional call stays
/// null.
[[nodiscard]] Library<CudaCalls> load_cuda();
[[nodiscard]] Library<NcclCalls> load_nccl();

}  // namespace tutti::device
