#include "transport/link_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/system_error.hpp"

namespace tutti::transport {
namespace {

// Layout: the two rings' counters, the reply ring, the data ring.
constexpr std::size_t reply_offset = page_bytes;
constexpr std::size_t reply_bytes = page_bytes;
constexpr std::size_t data_offset = reply_offset + reply_bytes;
static_assert(2 * sizeof(RingState) <= reply_offset);

/// Measured: the ring should be so long that the reader's L2 cache has evicted a line before the
/// writer reuses it, as in collective channels. But a rank may have links with all ranks of its
/// host.
constexpr std::size_t data_bytes_of(int ranks) {
  constexpr std::size_t all_links_of_a_rank = std::size_t{8} << 20;
  constexpr std::size_t min = LinkMemory::initial_bytes;
  constexpr std::size_t max = std::size_t{2} << 20;
  return std::clamp(std::bit_floor(all_links_of_a_rank / static_cast<std::size_t>(ranks)), min,
                    max);
}

constexpr std::size_t link_bytes_of(int ranks) {
  return data_offset + data_bytes_of(ranks);
}

}  // namespace

std::size_t LinkMemory::bytes_for(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return count * count * link_bytes_of(ranks);
}

LinkMemory::LinkMemory(std::shared_ptr<SharedSegment> segment, int from, int to)
    : segment_(std::move(segment)), from_(from), to_(to) {
  if (!segment_->has_links())
    throw system_error("the shared segment has no memory for links", ENOSPC);
  const int ranks = segment_->ranks();
  const auto link = static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                    static_cast<std::size_t>(to);
  const auto bytes = link_bytes_of(ranks);
  offset_ = SharedSegment::channel_bytes_for(ranks) + link * bytes;
  if (from == segment_->local_rank()) segment_->allocate(offset_, data_offset + initial_bytes);
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                            segment_->file_.get(), static_cast<off_t>(offset_));
  if (base == MAP_FAILED) throw system_error("can't map the rings of a link", errno);
  base_ = static_cast<std::byte*>(base);
  ::madvise(base, bytes, MADV_DONTFORK);
}

LinkMemory::~LinkMemory() {
  if (segment_->is_owner()) ::munmap(base_, link_bytes_of(segment_->ranks()));
}

bool LinkMemory::grow_data_ring(std::size_t bytes) const {
  return segment_->allocate_for_link(offset_ + data_offset + bytes / 2, bytes / 2);
}

LinkMemory::Ring LinkMemory::data_ring() const {
  return {reinterpret_cast<RingState*>(base_),
          {base_ + data_offset, data_bytes_of(segment_->ranks())}};
}

LinkMemory::Ring LinkMemory::reply_ring() const {
  return {reinterpret_cast<RingState*>(base_) + 1, {base_ + reply_offset, reply_bytes}};
}

}  // namespace tutti::transport
