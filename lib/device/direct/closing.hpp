#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "device/context.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace tutti::device::direct {

/// Staging memory of destroyed communicators, into which a peer may still store: it is freed once
/// all ranks have destroyed theirs. So no destructor waits for another rank. Communicators of
/// several threads may share it.
class ClosingStaging {
 public:
  ClosingStaging() = default;
  ClosingStaging(const ClosingStaging&) = delete;
  ClosingStaging& operator=(const ClosingStaging&) = delete;
  /// Waits up to a second for the peers; after that the memory stays until the process ends.
  ~ClosingStaging();

  /// Its goodbye has been queued. `kernels` may be running until then.
  void add(std::shared_ptr<const Context> context, std::unique_ptr<SharedStaging> staging,
           std::unique_ptr<Kernels> kernels);
  /// Frees what is unused now.
  void sweep() noexcept;

 private:
  struct Entry {
    std::shared_ptr<const Context> context;
    std::unique_ptr<SharedStaging> staging;
    std::unique_ptr<Kernels> kernels;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace tutti::device::direct
