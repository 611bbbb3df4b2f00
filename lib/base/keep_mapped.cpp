#include "base/keep_mapped.hpp"

#include <dlfcn.h>

namespace tutti {

void keep_mapped() noexcept {
  Dl_info info{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dladdr() wants it so
  if (::dladdr(reinterpret_cast<const void*>(&keep_mapped), &info) == 0) return;
  // Null for the program itself, which is never closed.
  void* const self = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (self != nullptr) ::dlclose(self);
}

}  // namespace tutti
