#include "memory.hpp"

#include <fmt/format.h>

#include <atomic>

#include "device/inventory.hpp"

namespace tutti::device::direct {
namespace {

std::byte* pointer(DeviceAddress address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's number
}

void require(const CudaCalls& cuda, CudaResult result, const char* doing) {
  if (result == cuda_success) return;
  throw Error(ErrorCode::system,
              fmt::format("{} failed: {}", doing, cuda_error_text(cuda, result)));
}

}  // namespace

SharedStaging::SharedStaging(std::shared_ptr<const Context> context, const control::Group& group,
                             SetupExchange& setup)
    : context_(std::move(context)),
      rank_(group.rank),
      begins_(static_cast<std::size_t>(group.size()), nullptr) {
  const auto& cuda = context_->cuda();
  std::vector<CudaIpcHandle> handles(begins_.size());
  const auto step = [&](auto action) {
    std::string failure;
    try {
      action();
    } catch (const Error& error) {
      failure = error.sentence();
    }
    static_cast<void>(setup.all_done(true, failure));
  };
  step([&] {
    allocate(group.size());
    require(
        cuda,
        cuda.export_memory(&handles[static_cast<std::size_t>(rank_)], device_address(of(rank_))),
        "exporting device memory");
  });
  setup.all_gather(handles.data(), sizeof(CudaIpcHandle));
  step([&] { import(handles); });
}

void SharedStaging::allocate(int ranks) {
  const auto& cuda = context_->cuda();
  void* flag = nullptr;
  require(cuda, cuda.allocate_pinned(&flag, sizeof *abort_flag_, 0),
          "allocating page-locked memory");
  abort_flag_ = static_cast<std::uint32_t*>(flag);
  *abort_flag_ = 0;
  const auto bytes = Layout{ranks}.bytes();
  DeviceAddress address = 0;
  require(cuda, cuda.allocate(&address, bytes), "allocating staging memory on the device");
  begins_[static_cast<std::size_t>(rank_)] = pointer(address);
  require(cuda, cuda.fill(address, 0, bytes, nullptr), "clearing staging memory");
  require(cuda, cuda.synchronize_stream(nullptr), "clearing staging memory");
}

void SharedStaging::import(const std::vector<CudaIpcHandle>& handles) {
  const auto& cuda = context_->cuda();
  for (std::size_t peer = 0; peer < handles.size(); ++peer) {
    if (static_cast<int>(peer) == rank_) continue;
    DeviceAddress address = 0;
    require(cuda, cuda.import_memory(&address, handles[peer], ipc_with_peer_access),
            "mapping a peer's device memory");
    begins_[peer] = pointer(address);
  }
}

void SharedStaging::abort() noexcept {
  std::atomic_ref(*abort_flag_).store(1);
}

SharedStaging::~SharedStaging() {
  const auto& cuda = context_->cuda();
  for (std::size_t peer = 0; peer < begins_.size(); ++peer) {
    if (static_cast<int>(peer) != rank_) cuda.close_imported(device_address(begins_[peer]));
  }
  cuda.free(device_address(of(rank_)));
  cuda.free_pinned(abort_flag_);
}

}  // namespace tutti::device::direct
