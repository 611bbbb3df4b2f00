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

Heap::Heap(int file, std::size_t begin, std::size_t zone_bytes, int local_rank, int ranks)
    : file_(file),
      owner_(::getpid()),
      begin_(begin),
      zone_bytes_(zone_bytes),
      local_rank_(local_rank),
      ranks_(ranks),
      opened_(static_cast<std::size_t>(ranks)) {
  // A limit on address space is there for the program's own.
  rlimit limit{};
  if (zone_bytes_ == 0 || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) {
    return;
  }
  // Not to be touched yet: a program that locks all its memory must not get all of this.
  void* const base = ::mmap(nullptr, zone_bytes_ * static_cast<std::size_t>(ranks_), PROT_NONE,
                            MAP_SHARED | MAP_NORESERVE, file_, static_cast<off_t>(begin_));
  if (base == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(base);
  // A core file would hold all of it, holes too. A forked child gets what the program has taken.
  const auto all = zone_bytes_ * static_cast<std::size_t>(ranks_);
  ::madvise(base, all, MADV_DONTDUMP);
  ::madvise(base, all, MADV_DONTFORK);
  free_.emplace(0, zone_bytes_);
}

Heap::~Heap() {
  // In a forked child something else may be there.
  if (base_ != nullptr && ::getpid() == owner_)
    ::munmap(base_, zone_bytes_ * static_cast<std::size_t>(ranks_));
}

std::size_t Heap::in_file(std::size_t offset) const {
  return begin_ + static_cast<std::size_t>(local_rank_) * zone_bytes_ + offset;
}

bool Heap::is_open(int local_rank, std::size_t offset, std::size_t bytes) const {
  const auto& opened = opened_[static_cast<std::size_t>(local_rank)];
  const auto end = opened.end.load(std::memory_order_acquire);
  return offset + bytes <= end && offset >= opened.begin.load(std::memory_order_acquire);
}

/// With the mutex held.
bool Heap::open(int local_rank, std::size_t offset, std::size_t bytes) {
  if (is_open(local_rank, offset, bytes)) return true;
  auto& opened = opened_[static_cast<std::size_t>(local_rank)];
  const auto begin = std::min(offset / page_bytes * page_bytes, opened.begin.load());
  const auto end = std::max(round_up_to_page(offset + bytes), opened.end.load());
  auto* const zone = base_ + static_cast<std::size_t>(local_rank) * zone_bytes_;
  // What a peer exports is read here: a stray write of this program must not reach its memory.
  const int access = local_rank == local_rank_ ? PROT_READ | PROT_WRITE : PROT_READ;
  if (::mprotect(zone + begin, end - begin, access) != 0) return false;
  if (local_rank == local_rank_) ::madvise(zone + begin, end - begin, MADV_DOFORK);
  // In this order: whoever sees the new end sees the new begin.
  opened.begin.store(begin, std::memory_order_release);
  opened.end.store(end, std::memory_order_release);
  return true;
}

/// Zero again, and nobody's memory.
bool Heap::punch(std::size_t offset, std::size_t bytes) const {
  return ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(in_file(offset)), static_cast<off_t>(bytes)) == 0;
}

std::byte* Heap::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (base_ == nullptr || bytes > zone_bytes_) return nullptr;
  const auto length = std::max(round_up_to_page(bytes), page_bytes);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& hole) { return hole.second >= length; });
  if (found == free_.end()) return nullptr;
  const auto [offset, room] = *found;
  // Ahead of its use, so that a lack of memory shows here and is no signal later.
  int result = 0;
  do {
    result = ::fallocate(file_, 0, static_cast<off_t>(in_file(offset)), static_cast<off_t>(length));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return nullptr;
  if (!open(local_rank_, offset, length)) {
    static_cast<void>(punch(offset, length));
    return nullptr;
  }
  free_.erase(found);
  if (room > length) free_.emplace(offset + length, room - length);
  taken_.emplace(offset, length);
  return base_ + static_cast<std::size_t>(local_rank_) * zone_bytes_ + offset;
}

void Heap::give_back(std::byte* piece) {
  const std::lock_guard lock(mutex_);
  auto* const zone = base_ + static_cast<std::size_t>(local_rank_) * zone_bytes_;
  const auto taken = taken_.find(static_cast<std::size_t>(piece - zone));
  auto [offset, length] = *taken;
  taken_.erase(taken);
  // Refused, it is not zero, and comes back with the job's end.
  if (!punch(offset, length)) return;
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
  const auto* const zone = base_ + static_cast<std::size_t>(local_rank_) * zone_bytes_;
  if (memory < zone || memory >= zone + zone_bytes_) return std::nullopt;
  const auto offset = static_cast<std::size_t>(memory - zone);
  if (bytes > zone_bytes_ - offset) return std::nullopt;
  return offset;
}

const std::byte* Heap::address_of(int local_rank, std::uint64_t offset, std::size_t bytes) {
  if (base_ == nullptr || offset > zone_bytes_ || bytes > zone_bytes_ - offset) {
    throw system_error("a peer speaks of memory that it does not share", EPROTO);
  }
  auto* const result = base_ + static_cast<std::size_t>(local_rank) * zone_bytes_ + offset;
  if (is_open(local_rank, offset, bytes)) return result;
  const std::lock_guard lock(mutex_);
  if (!open(local_rank, offset, bytes)) throw system_error("can't reach a peer's memory", errno);
  return result;
}

}  // namespace tutti::transport
