#include "transport/link_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/system_error.hpp"

namespace tutti::transport {
namespace {

// Two lines of counters a ring, then the answers, then what is sent.
constexpr std::size_t back_offset = page_bytes;
constexpr std::size_t back_bytes = page_bytes;
constexpr std::size_t forth_offset = back_offset + back_bytes;
static_assert(2 * sizeof(RingState) <= back_offset);

/// Measured: what a core writes should have left the other core's second-level cache since that
/// read it, as in rooms. But each rank of a host may have links with all others.
constexpr std::size_t forth_bytes_of(int ranks) {
  constexpr std::size_t all_links_of_a_rank = std::size_t{8} << 20;
  constexpr std::size_t least = LinkMemory::first_bytes;
  constexpr std::size_t most = std::size_t{2} << 20;
  return std::clamp(std::bit_floor(all_links_of_a_rank / static_cast<std::size_t>(ranks)), least,
                    most);
}

constexpr std::size_t link_bytes_of(int ranks) {
  return forth_offset + forth_bytes_of(ranks);
}

}  // namespace

std::size_t LinkMemory::bytes_for(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return count * count * link_bytes_of(ranks);
}

LinkMemory::LinkMemory(std::shared_ptr<SharedSegment> segment, int from, int to)
    : segment_(std::move(segment)), from_(from), to_(to) {
  if (!segment_->has_links()) throw system_error("the segment has no room for links", ENOSPC);
  const int ranks = segment_->ranks();
  const auto link = static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                    static_cast<std::size_t>(to);
  const auto bytes = link_bytes_of(ranks);
  offset_ = SharedSegment::channel_bytes_for(ranks) + link * bytes;
  if (from == segment_->local_rank()) segment_->take_memory(offset_, forth_offset + first_bytes);
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                            segment_->file_.get(), static_cast<off_t>(offset_));
  if (base == MAP_FAILED) throw system_error("can't map the memory of a link", errno);
  base_ = static_cast<std::byte*>(base);
  ::madvise(base, bytes, MADV_DONTFORK);
}

LinkMemory::~LinkMemory() {
  if (segment_->is_owner()) ::munmap(base_, link_bytes_of(segment_->ranks()));
}

bool LinkMemory::take_forth(std::size_t bytes) const {
  return segment_->take_for_link(offset_ + forth_offset + bytes / 2, bytes / 2);
}

LinkMemory::Ring LinkMemory::forth() const {
  return {reinterpret_cast<RingState*>(base_),
          {base_ + forth_offset, forth_bytes_of(segment_->ranks())}};
}

LinkMemory::Ring LinkMemory::back() const {
  return {reinterpret_cast<RingState*>(base_) + 1, {base_ + back_offset, back_bytes}};
}

}  // namespace tutti::transport
