#include "base/secret_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/system_error.hpp"

namespace tutti {

SecretMemory::SecretMemory(std::size_t bytes) : bytes_(bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  mapped_bytes_ = (bytes + page - 1) / page * page;
  void* const mapping =
      ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw system_error("no memory for a secret", errno);
  start_ = static_cast<std::byte*>(mapping);
  // Failures are ignored: old kernels and small limits must not fail the job.
  ::madvise(mapping, mapped_bytes_, MADV_DONTDUMP);
  ::mlock(mapping, mapped_bytes_);
}

SecretMemory::~SecretMemory() {
  if (start_ == nullptr) return;
  ::explicit_bzero(start_, bytes_);
  ::munmap(start_, mapped_bytes_);
}

}  // namespace tutti
