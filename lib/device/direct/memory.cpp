#include "memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

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

OwnStream::OwnStream(std::shared_ptr<const Context> context) : context_(std::move(context)) {
  const auto& cuda = context_->cuda();
  require(cuda, cuda.create_stream(&handle_, non_blocking_stream), "creating a stream");
}

OwnStream::~OwnStream() {
  context_->cuda().destroy_stream(handle_);
}

SharedStaging::SharedStaging(std::shared_ptr<const Context> context, const control::Group& group,
                             SetupExchange& setup)
    : context_(std::move(context)),
      stream_(context_),
      rank_(group.rank),
      begins_(static_cast<std::size_t>(group.size()), nullptr),
      windows_(context_, group, [this](std::size_t window, const WindowTable::Addresses& of_ranks) {
        publish(window, of_ranks);
      }) {
  const auto& cuda = context_->cuda();
  std::vector<CudaIpcHandle> handles(begins_.size());
  try {
    setup.step([&] {
      allocate();
      require(
          cuda,
          cuda.export_memory(&handles[static_cast<std::size_t>(rank_)], device_address(of(rank_))),
          "exporting device memory");
    });
    setup.all_gather(handles.data(), sizeof(CudaIpcHandle));
    setup.step([&] { import(handles); });
  } catch (const AgreedFailure&) {
    close_imports();
    static_cast<void>(setup.all_done(true, {}));
    if (of(rank_) != nullptr) cuda.free(device_address(of(rank_)));
    if (host_ != nullptr) cuda.free_pinned(host_);
    throw;
  }
}

void SharedStaging::allocate() {
  const auto& cuda = context_->cuda();
  void* pinned = nullptr;
  require(cuda, cuda.allocate_pinned(&pinned, sizeof(HostPart), 0),
          "allocating page-locked memory");
  host_ = new (pinned) HostPart{};
  const auto bytes = Layout{ranks()}.bytes();
  DeviceAddress address = 0;
  require(cuda, cuda.allocate(&address, bytes), "allocating staging memory on the device");
  begins_[static_cast<std::size_t>(rank_)] = pointer(address);
  require(cuda, cuda.fill(address, 0, bytes, stream()), "clearing staging memory");
  require(cuda, cuda.synchronize_stream(stream()), "clearing staging memory");
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

void SharedStaging::publish(std::size_t window, const WindowTable::Addresses& of_ranks) const {
  const auto& cuda = context_->cuda();
  const auto bytes = of_ranks.size() * sizeof(DeviceAddress);
  const auto* const row = of(rank_) + Layout{ranks()}.windows() + window * bytes;
  auto result = cuda.copy_to_device(device_address(row), of_ranks.data(), bytes, stream());
  if (result == cuda_success) result = cuda.synchronize_stream(stream());
  require(cuda, result, "storing the addresses of device memory");
}

void SharedStaging::close_imports() noexcept {
  windows_.close_imports();
  for (std::size_t peer = 0; peer < begins_.size(); ++peer) {
    if (static_cast<int>(peer) == rank_ || begins_[peer] == nullptr) continue;
    context_->cuda().close_imported(device_address(begins_[peer]));
    begins_[peer] = nullptr;
  }
}

void SharedStaging::abort() noexcept {
  std::atomic_ref(host_->abort).store(1);
}

std::optional<SharedStaging::Progress> SharedStaging::read_progress() {
  constexpr int looks = 100;
  constexpr std::chrono::microseconds pause_time{100};
  const auto& cuda = context_->cuda();
  const Layout layout{ranks()};
  auto& [channels, waits] = host_->progress;
  if (!is_reading_) {
    if (cuda.copy_to_host(channels.data(), device_address(of(rank_) + layout.progress()),
                          sizeof channels, stream()) != cuda_success ||
        cuda.copy_to_host(&waits, device_address(of(rank_) + layout.waits()), sizeof waits,
                          stream()) != cuda_success) {
      return std::nullopt;
    }
    is_reading_ = true;
  }
  // Copies wait for others if the streams of the program share a queue of the device with them.
  for (int look = 0; look < looks; ++look) {
    const auto result = cuda.query_stream(stream());
    if (result == cuda_success) {
      is_reading_ = false;
      return host_->progress;
    }
    if (result != cuda_not_ready) break;
    std::this_thread::sleep_for(pause_time);
  }
  return std::nullopt;
}

CudaResult SharedStaging::queue_goodbye() {
  constexpr std::uint64_t closed = 1;
  const auto offset = Layout{ranks()}.closed() + static_cast<std::size_t>(rank_) * sizeof closed;
  CudaResult result = cuda_success;
  for (int rank = 0; rank < ranks() && result == cuda_success; ++rank) {
    result = context_->cuda().copy_to_device(device_address(of(rank) + offset), &closed,
                                             sizeof closed, stream());
  }
  return result;
}

bool SharedStaging::is_unused() {
  const auto& cuda = context_->cuda();
  if (cuda.query_stream(stream()) != cuda_success) return false;
  close_imports();
  std::vector<std::uint64_t> closed(begins_.size());
  const auto* const words = of(rank_) + Layout{ranks()}.closed();
  return cuda.copy_to_host(closed.data(), device_address(words), closed.size() * 8, stream()) ==
             cuda_success &&
         cuda.synchronize_stream(stream()) == cuda_success &&
         std::find(closed.begin(), closed.end(), 0U) == closed.end();
}

SharedStaging::~SharedStaging() {
  close_imports();
  context_->cuda().free(device_address(of(rank_)));
  context_->cuda().free_pinned(host_);
}

}  // namespace tutti::device::direct
