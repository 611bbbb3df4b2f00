#include "fake_machine.hpp"

#include <cstdlib>

namespace fake_gpu {

int setting(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

Machine& machine() {
  static auto* const made = new Machine;
  return *made;
}

void*& current_context() {
  static thread_local void* context = nullptr;
  return context;
}

void* context_of(int device) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(0x1000 + device));
}

Stream& stream_of(void* stream) {
  return stream == nullptr ? machine().default_stream : *static_cast<Stream*>(stream);
}

const Allocation* find_block(std::uintptr_t address, std::uintptr_t& base) {
  auto after = machine().blocks.upper_bound(address);
  if (after == machine().blocks.begin()) return nullptr;
  --after;
  base = after->first;
  return address < base + after->second.bytes ? &after->second : nullptr;
}

void* pointer(unsigned long long address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

extern "C" {

void* fake_gpu_alias(const void* address) {
  const std::lock_guard lock(machine().mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t base = 0;
  const auto* const block = find_block(number, base);
  if (block == nullptr || block->pinned) return const_cast<void*>(address);
  return block->alias + (number - base);
}

int fake_gpu_current_device() {
  return current_context() == nullptr
             ? 0
             : static_cast<int>(reinterpret_cast<std::uintptr_t>(current_context()) - 0x1000);
}

void fake_gpu_enqueue(void* stream, const std::function<void()>* work) {
  stream_of(stream).enqueue(*work);
}

}  // extern "C"

}  // namespace fake_gpu
