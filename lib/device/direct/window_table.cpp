#include "window_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "device/inventory.hpp"

namespace tutti::device::direct {
namespace {

/// CUDA exports whole blocks of this size: smaller memory might share one with other memory.
constexpr std::size_t exported_unit = std::size_t{2} << 20;

void require_success(const CudaCalls& cuda, CudaResult result, const char* doing) {
  if (result == cuda_success) return;
  throw Error(ErrorCode::system,
              fmt::format("{} failed: {}", doing, cuda_error_text(cuda, result)));
}

}  // namespace

struct WindowTable::Window {
  Window(std::shared_ptr<const Context> context_of_all, std::size_t bytes, int ranks)
      : context(std::move(context_of_all)),
        block(context, bytes),
        imports(static_cast<std::size_t>(ranks), 0) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() { close_imports(); }

  void close_imports() noexcept {
    for (auto& address : imports) {
      if (address != 0) context->cuda().close_imported(address);
      address = 0;
    }
  }

  std::shared_ptr<const Context> context;
  DeviceBlock block;
  std::vector<DeviceAddress> imports;  ///< 0 at this rank's place
  std::atomic<bool> is_used{true};     ///< by the program
};

WindowTable::WindowTable(std::shared_ptr<const Context> context, const control::Group& group,
                         Publish publish)
    : context_(std::move(context)), group_(group), publish_(std::move(publish)) {}

WindowTable::~WindowTable() {
  close_imports();
}

void WindowTable::close_imports() noexcept {
  for (const auto& window : windows_) window->close_imports();
}

std::shared_ptr<void> WindowTable::allocate(std::size_t bytes, SetupExchange& setup) {
  const auto size = (bytes + exported_unit - 1) / exported_unit * exported_unit;
  auto window = find_unused(size, setup);
  if (window) {
    setup.step([&] { window->block.clear(); });
    window->is_used.store(true);
  } else if (windows_.size() < max_windows) {
    window = make(size, setup);
    Addresses addresses = window->imports;
    addresses[static_cast<std::size_t>(group_.rank)] = device_address(window->block.data());
    setup.step([&] { publish_(windows_.size(), addresses); });
    order_.push_back(windows_.size());
    windows_.push_back(window);
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return std::less<>()(windows_[a]->block.data(), windows_[b]->block.data());
    });
  } else {
    std::shared_ptr<DeviceBlock> block;
    setup.step([&] { block = std::make_shared<DeviceBlock>(context_, bytes); });
    return {block, block->data()};
  }
  auto* const memory = window->block.data();
  return {memory, [window](void*) { window->is_used.store(false); }};
}

/// The smallest window that no rank uses, and that is not much too large.
std::shared_ptr<WindowTable::Window> WindowTable::find_unused(std::size_t bytes,
                                                              SetupExchange& setup) const {
  std::vector<Mask> unused(static_cast<std::size_t>(group_.size()));
  auto& own = unused[static_cast<std::size_t>(group_.rank)];
  for (std::size_t number = 0; number < windows_.size(); ++number) {
    if (!windows_[number]->is_used.load()) own[number / 64] |= std::uint64_t{1} << number % 64;
  }
  setup.all_gather(unused.data(), sizeof(Mask));
  std::shared_ptr<Window> best;
  for (std::size_t number = 0; number < windows_.size(); ++number) {
    const bool is_unused = std::all_of(unused.begin(), unused.end(), [&](const Mask& mask) {
      return (mask[number / 64] >> number % 64 & 1) != 0;
    });
    const auto& window = windows_[number];
    const auto has = window->block.bytes();
    if (!is_unused || has < bytes || has / 2 > bytes) continue;
    if (!best || has < best->block.bytes()) best = window;
  }
  return best;
}

std::shared_ptr<WindowTable::Window> WindowTable::make(std::size_t bytes,
                                                       SetupExchange& setup) const {
  const auto& cuda = context_->cuda();
  std::shared_ptr<Window> window;
  std::vector<CudaIpcHandle> handles(static_cast<std::size_t>(group_.size()));
  setup.step([&] {
    window = std::make_shared<Window>(context_, bytes, group_.size());
    require_success(cuda,
                    cuda.export_memory(&handles[static_cast<std::size_t>(group_.rank)],
                                       device_address(window->block.data())),
                    "exporting device memory");
  });
  setup.all_gather(handles.data(), sizeof(CudaIpcHandle));
  try {
    setup.step([&] { import(*window, handles); });
  } catch (const AgreedFailure&) {
    // Memory is freed once no peer has it mapped.
    window->close_imports();
    static_cast<void>(setup.all_done(true, {}));
    throw;
  }
  return window;
}

void WindowTable::import(Window& window, const std::vector<CudaIpcHandle>& handles) const {
  const auto& cuda = context_->cuda();
  for (std::size_t peer = 0; peer < handles.size(); ++peer) {
    if (static_cast<int>(peer) == group_.rank) continue;
    require_success(cuda,
                    cuda.import_memory(&window.imports[peer], handles[peer], ipc_with_peer_access),
                    "mapping a peer's device memory");
  }
}

std::optional<Place> WindowTable::find(const void* begin, std::size_t bytes) const {
  const auto after = std::upper_bound(
      order_.begin(), order_.end(), begin, [&](const void* address, std::size_t number) {
        return std::less<>()(address, static_cast<const void*>(windows_[number]->block.data()));
      });
  if (after == order_.begin()) return std::nullopt;
  const auto number = *(after - 1);
  const auto& block = windows_[number]->block;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(begin) - block.data());
  if (offset > block.bytes() || bytes > block.bytes() - offset) return std::nullopt;
  return Place{.window = number, .offset = offset};
}

}  // namespace tutti::device::direct
