// NCCL's own memory and its registered windows, which make no difference to the fake NCCL.
#include <cstddef>

#include "fake_gpu.hpp"

extern "C" {
int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes);
int cuMemFree_v2(unsigned long long address);

int ncclMemAlloc(void** memory, std::size_t bytes) {
  unsigned long long address = 0;
  const int result = cuMemAlloc_v2(&address, bytes);
  *memory = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's number
  return result == 0 ? 0 : 1;
}
int ncclMemFree(void* memory) {
  return cuMemFree_v2(reinterpret_cast<unsigned long long>(memory)) == 0 ? 0 : 1;
}
int ncclCommWindowRegister(void*, void* memory, std::size_t, void** window, int) {
  const int result = fake_gpu::setting("FAKE_NCCL_WINDOW_RESULT", 0);
  *window = result == 0 ? memory : nullptr;
  return result;
}
int ncclCommWindowDeregister(void*, void*) {
  return 0;
}
}
