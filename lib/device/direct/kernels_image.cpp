#include "image.hpp"

#ifdef TUTTI_KERNELS
#include "kernels_image.hpp"

asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden tutti_direct_image\n"
    ".global tutti_direct_image\n"
    "tutti_direct_image: .incbin \"" TUTTI_KERNELS_FILE
    "\"\n"
    ".popsection\n");
extern "C" const unsigned char tutti_direct_image;
#endif

namespace tutti::device::direct {

const void* kernel_image() noexcept {
#ifdef TUTTI_KERNELS
  return &tutti_direct_image;
#else
  return nullptr;
#endif
}

}  // namespace tutti::device::direct
