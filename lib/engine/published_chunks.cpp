#include "engine/published_chunks.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system_error.hpp"

namespace tutti::engine {
namespace {

/// The front of a slot's content. The data follows if it fits, else it is in the ring.
struct Published {
  std::uint64_t begin;  ///< offset in the publisher's buffer
  std::uint64_t bytes;
  std::uint64_t ring_offset;
};

constexpr std::size_t max_inline_bytes = transport::inline_bytes - sizeof(Published);

}  // namespace

PublishedChunks::PublishedChunks(transport::CollectiveChannel& channel,
                                 std::span<const int> member_of_rank, std::uint64_t fingerprint,
                                 std::uint64_t chunks)
    : channel_(&channel), chunks_(channel, chunks, fingerprint), member_of_rank_(member_of_rank) {}

std::byte* PublishedChunks::try_open(std::uint64_t chunk, std::size_t begin, std::size_t bytes) {
  const auto number = chunks_.number(chunk);
  auto& own = chunks_.own_slot(chunk);
  Published content{.begin = begin, .bytes = bytes, .ring_offset = 0};
  std::byte* to = own.content + sizeof content;
  if (bytes > max_inline_bytes) {
    if (bytes > channel_->published_bytes()) {
      throw system_error("a schedule publishes more than a chunk holds", EMSGSIZE);
    }
    channel_->grow();
    const auto span = channel_->next_span(number, bytes);
    reads_before_ = span.reads_before;
    if (!channel_->all_have_read(reads_before_)) return nullptr;
    channel_->reserve(number, span);
    content.ring_offset = span.offset;
    to = channel_->self().ring + span.offset;
  } else {
    reads_before_ = transport::CollectiveChannel::reads_before_slot(number);
    if (!channel_->all_have_read(reads_before_)) return nullptr;
  }
  std::memcpy(own.content, &content, sizeof content);
  return to;
}

void PublishedChunks::publish(std::uint64_t chunk) {
  chunks_.publish(chunk);
  channel_->notify();
}

const std::byte* PublishedChunks::find(int rank, std::uint64_t chunk, std::size_t begin,
                                       std::size_t bytes) {
  const int member = member_of(rank);
  if (!chunks_.has_published(member, chunk)) {
    if (chunks_.mismatched_member() == member) mismatched_ = rank;
    return nullptr;
  }
  const auto& theirs = chunks_.slot(member, chunk);
  Published content{};
  std::memcpy(&content, theirs.content, sizeof content);
  if (begin < content.begin || begin + bytes > content.begin + content.bytes) {
    throw system_error("a peer published other data than the schedule needs", EPROTO);
  }
  const auto offset = begin - content.begin;
  if (content.bytes <= max_inline_bytes) return theirs.content + sizeof content + offset;
  return channel_->in_ring(member, content.ring_offset + offset, bytes);
}

void PublishedChunks::release(std::uint64_t chunk) {
  chunks_.release(chunk + 1);
  channel_->notify();
}

bool PublishedChunks::delays_opening(int rank) {
  const int member = member_of(rank);
  // try_open() has looked at members up to the first that is behind.
  return member >= 0 && member != channel_->rank() && !channel_->has_read(member, reads_before_);
}

}  // namespace tutti::engine
