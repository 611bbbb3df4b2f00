#include "transport/heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/page.hpp"
#include "base/system_error.hpp"

namespace tutti::transport {

Heap::Heap(int file, std::size_t begin, std::size_t heap_bytes, int local_rank, int ranks)
    : file_(file),
      owner_(::getpid()),
      begin_(begin),
      heap_bytes_(heap_bytes),
      local_rank_(local_rank),
      ranks_(ranks),
      accessible_(static_cast<std::size_t>(ranks)) {
  // A limit on address space is meant for the program's own use.
  rlimit limit{};
  if (heap_bytes_ == 0 || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) {
    return;
  }
  // Inaccessible at first: mlockall() must not lock all of it.
  void* const base = ::mmap(nullptr, heap_bytes_ * static_cast<std::size_t>(ranks_), PROT_NONE,
                            MAP_SHARED | MAP_NORESERVE, file_, static_cast<off_t>(begin_));
  if (base == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(base);
  // A core file would include all of it, holes too. A forked child inherits allocated memory only.
  const auto all = heap_bytes_ * static_cast<std::size_t>(ranks_);
  ::madvise(base, all, MADV_DONTDUMP);
  ::madvise(base, all, MADV_DONTFORK);
  free_.emplace(0, heap_bytes_);
}

Heap::~Heap() {
  // In a forked child the address may be reused.
  if (base_ != nullptr && ::getpid() == owner_)
    ::munmap(base_, heap_bytes_ * static_cast<std::size_t>(ranks_));
}

std::size_t Heap::file_offset(std::size_t offset) const {
  return begin_ + static_cast<std::size_t>(local_rank_) * heap_bytes_ + offset;
}

bool Heap::is_accessible(int local_rank, std::size_t offset, std::size_t bytes) const {
  const auto& range = accessible_[static_cast<std::size_t>(local_rank)];
  const auto end = range.end.load(std::memory_order_acquire);
  return offset + bytes <= end && offset >= range.begin.load(std::memory_order_acquire);
}

/// Requires the mutex.
bool Heap::make_accessible(int local_rank, std::size_t offset, std::size_t bytes) {
  if (is_accessible(local_rank, offset, bytes)) return true;
  auto& range = accessible_[static_cast<std::size_t>(local_rank)];
  const auto begin = std::min(offset / page_bytes * page_bytes, range.begin.load());
  const auto end = std::max(round_up_to_page(offset + bytes), range.end.load());
  auto* const heap = base_ + static_cast<std::size_t>(local_rank) * heap_bytes_;
  // Peers' memory is read-only: a stray write of this program must not reach it.
  const int access = local_rank == local_rank_ ? PROT_READ | PROT_WRITE : PROT_READ;
  if (::mprotect(heap + begin, end - begin, access) != 0) return false;
  if (local_rank == local_rank_) ::madvise(heap + begin, end - begin, MADV_DOFORK);
  // In this order: a reader that sees the new end sees the new begin.
  range.begin.store(begin, std::memory_order_release);
  range.end.store(end, std::memory_order_release);
  return true;
}

/// Returns the memory to the system; it reads as zero again.
bool Heap::discard(std::size_t offset, std::size_t bytes) const {
  return ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(file_offset(offset)), static_cast<off_t>(bytes)) == 0;
}

std::byte* Heap::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (base_ == nullptr || bytes > heap_bytes_) return nullptr;
  const auto length = std::max(round_up_to_page(bytes), page_bytes);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& hole) { return hole.second >= length; });
  if (found == free_.end()) return nullptr;
  const auto [offset, space] = *found;
  // Allocates now, so that a lack of memory is an error here and not SIGBUS later.
  int result = 0;
  do {
    result =
        ::fallocate(file_, 0, static_cast<off_t>(file_offset(offset)), static_cast<off_t>(length));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return nullptr;
  if (!make_accessible(local_rank_, offset, length)) {
    static_cast<void>(discard(offset, length));
    return nullptr;
  }
  free_.erase(found);
  if (space > length) free_.emplace(offset + length, space - length);
  allocated_.emplace(offset, length);
  return base_ + static_cast<std::size_t>(local_rank_) * heap_bytes_ + offset;
}

void Heap::release(std::byte* piece) {
  const std::lock_guard lock(mutex_);
  auto* const heap = base_ + static_cast<std::size_t>(local_rank_) * heap_bytes_;
  const auto found = allocated_.find(static_cast<std::size_t>(piece - heap));
  auto [offset, length] = *found;
  allocated_.erase(found);
  // If that fails, the piece is not zeroed and stays unused until the job ends.
  if (!discard(offset, length)) return;
  const auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + length) {
    length += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += length;
      return;
    }
  }
  free_.emplace(offset, length);
}

std::optional<std::uint64_t> Heap::offset_of(const std::byte* memory, std::size_t bytes) const {
  if (base_ == nullptr) return std::nullopt;
  const auto* const heap = base_ + static_cast<std::size_t>(local_rank_) * heap_bytes_;
  if (memory < heap || memory >= heap + heap_bytes_) return std::nullopt;
  const auto offset = static_cast<std::size_t>(memory - heap);
  if (bytes > heap_bytes_ - offset) return std::nullopt;
  return offset;
}

const std::byte* Heap::address_of(int local_rank, std::uint64_t offset, std::size_t bytes) {
  if (base_ == nullptr || offset > heap_bytes_ || bytes > heap_bytes_ - offset) {
    throw system_error("a peer published an offset outside its exported memory", EPROTO);
  }
  auto* const result = base_ + static_cast<std::size_t>(local_rank) * heap_bytes_ + offset;
  if (is_accessible(local_rank, offset, bytes)) return result;
  const std::lock_guard lock(mutex_);
  if (!make_accessible(local_rank, offset, bytes))
    throw system_error("can't map a peer's exported memory", errno);
  return result;
}

}  // namespace tutti::transport
