#include "nccl_windows.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "device/nccl_numbers.hpp"

namespace tutti::app::bench {
namespace {

/// NCCL_WIN_COLL_SYMMETRIC
constexpr int symmetric = 1;

}  // namespace

NcclWindows::NcclWindows(const device::Library<device::NcclCalls>& library, device::NcclComm comm)
    : calls_(library.calls), comm_(comm) {
  const auto find = [&](auto& function, const char* name) {
    void* const address = ::dlsym(library.handle.get(), name);
    if (address == nullptr && missing_.empty()) missing_ = fmt::format("NCCL has no {}", name);
    function = reinterpret_cast<std::decay_t<decltype(function)>>(address);
  };
  find(functions_.allocate, "ncclMemAlloc");
  find(functions_.free, "ncclMemFree");
  find(functions_.add, "ncclCommWindowRegister");
  find(functions_.remove, "ncclCommWindowDeregister");
}

NcclWindows::~NcclWindows() {
  release();
}

std::string NcclWindows::allocate(std::size_t send_bytes, std::size_t recv_bytes) {
  release();
  if (!missing_.empty()) return missing_;
  auto failure = open(send_, send_bytes);
  const auto other = open(recv_, recv_bytes);
  return failure.empty() ? other : failure;
}

std::string NcclWindows::open(Window& window, std::size_t bytes) {
  constexpr std::size_t least = 4096;
  const auto size = std::max(bytes, least);
  auto result = functions_.allocate(&window.memory, size);
  if (result == device::nccl_success) {
    result = functions_.add(comm_, window.memory, size, &window.handle, symmetric);
  }
  if (result == device::nccl_success && window.handle != nullptr) return {};
  return fmt::format("NCCL can't register a window of {} bytes: {}", size,
                     result == device::nccl_success
                         ? std::string("it gives none")
                         : device::nccl_error_text(calls_, comm_, result));
}

void NcclWindows::close(Window& window) {
  if (window.handle != nullptr) functions_.remove(comm_, window.handle);
  if (window.memory != nullptr) functions_.free(window.memory);
  window = {};
}

void NcclWindows::release() {
  close(send_);
  close(recv_);
}

}  // namespace tutti::app::bench
