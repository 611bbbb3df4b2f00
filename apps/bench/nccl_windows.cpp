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
  auto wrong = allocate(send_, send_bytes);
  return wrong.empty() ? allocate(recv_, recv_bytes) : wrong;
}

std::string NcclWindows::allocate(Window& window, std::size_t bytes) const {
  constexpr std::size_t least = 4096;
  window.bytes = std::max(bytes, least);
  const int result = functions_.allocate(&window.memory, window.bytes);
  return result == device::nccl_success ? std::string() : failure("allocate", window.bytes, result);
}

std::string NcclWindows::add() {
  // Both in any case, since the others register both.
  auto wrong = add(send_);
  auto other = add(recv_);
  return wrong.empty() ? other : wrong;
}

std::string NcclWindows::add(Window& window) const {
  const int result = functions_.add(comm_, window.memory, window.bytes, &window.handle, symmetric);
  if (result == device::nccl_success && window.handle == nullptr) {
    return "NCCL registers no windows between these ranks";
  }
  return result == device::nccl_success ? std::string() : failure("register", window.bytes, result);
}

std::string NcclWindows::failure(const char* doing, std::size_t bytes, int result) const {
  return fmt::format("NCCL can't {} a window of {} bytes: {}", doing, bytes,
                     device::nccl_error_text(calls_, comm_, result));
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
