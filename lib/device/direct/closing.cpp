#include "closing.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace tutti::device::direct {

void ClosingStaging::add(std::shared_ptr<const Context> context,
                         std::unique_ptr<SharedStaging> staging, std::unique_ptr<Kernels> kernels) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({std::move(context), std::move(staging), std::move(kernels)});
}

void ClosingStaging::sweep() noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](Entry& entry) {
    const auto& cuda = entry.context->cuda();
    CudaContext before = nullptr;
    cuda.get_context(&before);
    if (cuda.set_context(entry.context->handle()) != cuda_success) return false;
    const bool unused = entry.staging->is_unused();
    if (unused) {
      entry.staging.reset();
      entry.kernels.reset();
    }
    cuda.set_context(before);
    return unused;
  });
}

ClosingStaging::~ClosingStaging() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  sweep();
  while (!entries_.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    sweep();
  }
  for (auto& entry : entries_) {
    static_cast<void>(entry.staging.release());
    static_cast<void>(entry.kernels.release());
  }
}

}  // namespace tutti::device::direct
