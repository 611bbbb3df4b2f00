// The three stages of a shared-memory call: put, combine and get.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/copy.hpp"
#include "base/system_error.hpp"
#include "engine/shared_call.hpp"

namespace tutti::engine {
namespace {

/// Content of a slot whose data is elsewhere: offsets in the rank's ring, and for exported memory
/// offsets in the rank's heap plus 1 (0: not exported).
struct DataLocation {
  std::uint64_t exported_input;
  std::uint64_t exported_output;
  std::uint64_t data;
  std::uint64_t result;
  std::uint64_t address;  ///< of the rank's buffer, which is to be read by single copy; 0: none
};
static_assert(sizeof(DataLocation) <= transport::inline_bytes);

constexpr std::size_t at_once_bytes = std::size_t{1} << 20;

constexpr std::size_t up_to_a_line(std::size_t bytes) {
  return (bytes + line - 1) / line * line;
}

}  // namespace

std::size_t SharedCall::length_of(std::uint64_t chunk) const {
  return std::min(plan_.width, plan_.unit_bytes - begin_of(chunk));
}

SharedCall::Slice SharedCall::slice_of(int member, std::size_t length) const {
  const auto size = static_cast<std::size_t>(channel_->size());
  const auto each = ((length + size - 1) / size + line - 1) / line * line;
  const auto begin = std::min(static_cast<std::size_t>(member) * each, length);
  return {begin, std::min(each, length - begin)};
}

/// A member's buffer for a chunk whose data uses a slot or a page.
std::byte* SharedCall::short_buffer(int member, std::uint64_t chunk) const {
  if (plan_.where == Where::slot) return chunks_.slot(member, chunk).content;
  return channel_->member(member).pages +
         chunks_.number(chunk) % transport::pages_in_flight * page_bytes;
}

SharedCall::Contribution SharedCall::contribution(int member, std::uint64_t chunk) const {
  if (plan_.where != Where::ring) return {short_buffer(member, chunk), plan_.stride};
  DataLocation at{};
  std::memcpy(&at, chunks_.slot(member, chunk).content, sizeof at);
  if (at.exported_input == 0) {
    const bool has_blocks = plan_.input_bytes != plan_.unit_bytes;
    const auto size = static_cast<std::size_t>(channel_->size());
    const auto bytes = has_blocks ? plan_.stride * size : length_of(chunk);
    return {channel_->in_ring(member, at.data, bytes), plan_.stride};
  }
  has_read_exported_ = true;
  auto& heap = channel_->segment().heap();
  const auto* const bytes = heap.address_of(channel_->member(member).local_rank,
                                            at.exported_input - 1, plan_.input_bytes);
  return {bytes + begin_of(chunk), plan_.unit_bytes};
}

std::byte* SharedCall::own_result(std::uint64_t chunk) const {
  return channel_->self().ring + channel_->span_of(chunks_.number(chunk)).offset +
         bytes_of(chunk).data;
}

const std::byte* SharedCall::result(int member, std::uint64_t chunk, const Slice& slice) const {
  DataLocation at{};
  std::memcpy(&at, chunks_.slot(member, chunk).content, sizeof at);
  if (at.exported_output == 0) return channel_->in_ring(member, at.result, slice.length);
  has_read_exported_ = true;
  auto& heap = channel_->segment().heap();
  const auto* const bytes = heap.address_of(channel_->member(member).local_rank,
                                            at.exported_output - 1, plan_.unit_bytes);
  return bytes + begin_of(chunk) + slice.begin;
}

bool SharedCall::all_have_put(std::uint64_t chunk) {
  for (; put_seen_ < channel_->size(); ++put_seen_) {
    if (put_seen_ != channel_->rank() && !chunks_.has_published(put_seen_, chunk)) return false;
  }
  put_seen_ = 0;
  return true;
}

/// Ring bytes of a chunk: data, followed by results.
SharedCall::ChunkBytes SharedCall::bytes_of(std::uint64_t chunk) const {
  const auto length = length_of(chunk);
  const auto data =
      plan_.put == Put::blocks ? plan_.stride * static_cast<std::size_t>(channel_->size()) : length;
  ChunkBytes bytes;
  if (!exported_input_ && !publishes_address_) bytes.data = up_to_a_line(data);
  if (plan_.combine == Combine::slice && !exported_output_) {
    bytes.result = up_to_a_line(slice_of(channel_->rank(), length).length);
  }
  return bytes;
}

void SharedCall::copy_in(std::byte* to, const std::byte* from, std::size_t bytes) const {
  if (streaming_ == Streaming::both) {
    stream_piece(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

void SharedCall::copy_out(std::byte* to, const std::byte* from, std::size_t bytes) const {
  if (streaming_ != Streaming::none) {
    stream_piece(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

/// Required before the copies are published.
void SharedCall::finish_streaming_copies() const {
  if (streaming_ != Streaming::none) finish_streaming();
}

void SharedCall::put_content(std::uint64_t chunk, std::byte* to) const {
  const auto begin = begin_of(chunk);
  switch (plan_.put) {
    case Put::whole:
      // In a broadcast the root's `input` is its output buffer.
      copy_in(to, arguments_.input + begin, length_of(chunk));
      break;
    case Put::blocks:
      for (int m = 0; m < channel_->size(); ++m) {
        if (m == channel_->rank()) continue;
        const auto block = static_cast<std::size_t>(m);
        copy_in(to + block * plan_.stride, arguments_.input + block * plan_.unit_bytes + begin,
                length_of(chunk));
      }
      break;
    case Put::slices: {
      const auto length = length_of(chunk);
      const auto own = slice_of(channel_->rank(), length);
      const auto behind = own.begin + own.length;
      copy_in(to, arguments_.input + begin, own.begin);
      copy_in(to + behind, arguments_.input + begin + behind, length - behind);
      break;
    }
    default:
      break;
  }
}

bool SharedCall::try_put() {
  const auto number = chunks_.number(put_chunks_);
  auto& own = chunks_.own_slot(put_chunks_);
  std::byte* to = nullptr;
  if (plan_.where == Where::ring) {
    const auto bytes = bytes_of(put_chunks_);
    const auto span = channel_->next_span(number, bytes.data + bytes.result);
    if (!channel_->all_have_read(span.reads_before)) return false;
    channel_->reserve(number, span);
    const DataLocation at{
        exported_input_ ? *exported_input_ + 1 : 0, exported_output_ ? *exported_output_ + 1 : 0,
        span.offset, span.offset + bytes.data,
        publishes_address_ ? reinterpret_cast<std::uintptr_t>(arguments_.input) : 0};
    std::memcpy(own.content, &at, sizeof at);
    to = channel_->self().ring + span.offset;
  } else {
    if (!channel_->all_have_read(reads_before_put())) return false;
    to = short_buffer(channel_->rank(), put_chunks_);
  }
  if (!exported_input_ && !publishes_address_) put_content(put_chunks_, to);
  finish_streaming_copies();
  chunks_.publish(put_chunks_);
  notify();
  ++put_chunks_;
  return true;
}

/// The number of contributions that this rank combines: those of the lowest ranks.
int SharedCall::combined_parts() const {
  if (plan_.combine != Combine::prefix) return channel_->size();
  return channel_->rank() + (arguments_.operation == Operation::scan ? 1 : 0);
}

/// Combines one piece, at max scratch_bytes, of all contributions.
void SharedCall::combine_piece(std::byte* to, const std::byte* own, const Piece& piece) const {
  const int size = combined_parts();
  const auto length = piece.length;
  const auto part = [&](int member) -> const std::byte* {
    if (member == channel_->rank()) return own;
    const auto theirs = contribution(member, piece.chunk);
    return theirs.bytes + piece.block * theirs.stride + piece.offset;
  };
  const auto elements = length / arguments_.element_bytes;
  if (size == 1) {
    copy_bytes(to, part(0), length);
  } else if (arguments_.combine != nullptr) {
    auto* const scratch = channel_->scratch();
    for (int m = 0; m < size; ++m) {
      copy_bytes(
          scratch + static_cast<std::size_t>(m) * transport::CollectiveChannel::scratch_bytes,
          part(m), length);
    }
    arguments_.combine(to, scratch, transport::CollectiveChannel::scratch_bytes,
                       static_cast<std::size_t>(size), elements);
  } else if (arguments_.divides && is_weighed(arguments_.type)) {
    auto* const weighed = channel_->scratch() + transport::CollectiveChannel::scratch_bytes;
    const auto weight = average_weight(static_cast<std::size_t>(size));
    weigh(to, part(0), elements, arguments_.type, weight);
    for (int m = 1; m < size; ++m) {
      weigh(weighed, part(m), elements, arguments_.type, weight);
      arguments_.reduce(to, to, weighed, elements);
    }
  } else {
    arguments_.reduce(to, part(0), part(1), elements);
    for (int m = 2; m < size; ++m) arguments_.reduce(to, to, part(m), elements);
  }
  if (arguments_.divides) divide(to, elements, arguments_.type, size);
}

/// `to` may be this rank's contribution. `second`, unless null, receives a copy.
void SharedCall::combine_parts(std::byte* to, std::byte* second, const std::byte* own,
                               const Piece& all) const {
  auto* const piece = channel_->scratch();
  constexpr std::size_t max = transport::CollectiveChannel::scratch_bytes;
  for (std::size_t done = 0; done < all.length; done += max) {
    const auto bytes = std::min(max, all.length - done);
    combine_piece(piece, own + done, {all.chunk, all.block, all.offset + done, bytes});
    copy_out(to + done, piece, bytes);
    if (second != nullptr) copy_in(second + done, piece, bytes);
  }
}

bool SharedCall::try_combine() {
  const auto chunk = combined_chunks_;
  if (!all_have_put(chunk)) return false;
  const auto begin = begin_of(chunk);
  switch (plan_.combine) {
    case Combine::whole:
    case Combine::prefix:
      if (combined_parts() == 0) break;
      combine_parts(arguments_.output + begin, nullptr, arguments_.input + begin,
                    {chunk, 0, 0, length_of(chunk)});
      break;
    case Combine::block: {
      const auto block = static_cast<std::size_t>(channel_->rank());
      combine_parts(arguments_.output + begin, nullptr,
                    arguments_.input + block * plan_.unit_bytes + begin,
                    {chunk, block, 0, length_of(chunk)});
      break;
    }
    case Combine::slice: {
      const auto slice = slice_of(channel_->rank(), length_of(chunk));
      auto* const to = arguments_.output + begin + slice.begin;
      combine_parts(to, exported_output_ ? nullptr : own_result(chunk),
                    arguments_.input + begin + slice.begin, {chunk, 0, slice.begin, slice.length});
      finish_streaming_copies();
      channel_->self().region->reduced.value.store(chunks_.number(chunk + 1),
                                                   std::memory_order_release);
      notify();
      break;
    }
    default:
      break;
  }
  ++combined_chunks_;
  if (plan_.get == Get::nothing) publish_read(combined_chunks_);
  return true;
}

/// Returns false if the member's data of the chunk is not there yet.
bool SharedCall::get_from(int member) {
  const auto chunk = got_chunks_;
  const auto begin = begin_of(chunk);
  const auto length = length_of(chunk);
  const auto block = static_cast<std::size_t>(member);
  const auto own_block = static_cast<std::size_t>(channel_->rank());
  if (plan_.get == Get::slices) {
    const auto reduced =
        channel_->member(member).region->reduced.value.load(std::memory_order_acquire);
    if (reduced < chunks_.number(chunk + 1)) return false;
    const auto slice = slice_of(member, length);
    copy_out(arguments_.output + begin + slice.begin, result(member, chunk, slice), slice.length);
    return true;
  }
  if (!chunks_.has_published(member, chunk)) return false;
  const bool is_from_all = plan_.get == Get::all_whole || plan_.get == Get::all_blocks;
  const bool is_block = plan_.get == Get::root_block || plan_.get == Get::all_blocks;
  auto* const to = arguments_.output + (is_from_all ? block * plan_.unit_bytes : 0) + begin;
  if (plan_.where == Where::ring) {
    DataLocation at{};
    std::memcpy(&at, chunks_.slot(member, chunk).content, sizeof at);
    if (at.address != 0) {
      return get_by_single_copy(member, to,
                                at.address + (is_block ? own_block * plan_.unit_bytes : 0) + begin);
    }
  }
  const auto theirs = contribution(member, chunk);
  copy_out(to, theirs.bytes + (is_block ? own_block * theirs.stride : 0), length);
  return true;
}

/// Reads some chunks at once, since each system call costs as much as copying some KiB. `from` is
/// an address in the member's process. Returns false if that is gone.
bool SharedCall::get_by_single_copy(int member, std::byte* to, std::uint64_t from) {
  // What a rank overwrites of its own input, it must have put before.
  const auto group = overwrites_input() ? 1 : std::max<std::size_t>(1, at_once_bytes / plan_.width);
  if (got_chunks_ % group != 0) return true;
  const auto bytes = std::min(group * plan_.width, plan_.unit_bytes - begin_of(got_chunks_));
  has_read_addresses_ = true;
  switch (channel_->segment().single_copy().read(channel_->member(member).local_rank, to, from,
                                                 bytes)) {
    case transport::SingleCopy::Result::read:
      return true;
    case transport::SingleCopy::Result::gone:
      return false;
    case transport::SingleCopy::Result::refused:
      break;
  }
  // Refused to this reader, for example by a seccomp filter since set-up, or to all (EFAULT).
  const int reason = errno;
  throw system_error(
      fmt::format(
          "can't read {} bytes at {:#x} of rank {} of the communicator by process_vm_readv(){}",
          bytes, from, member,
          reason == EFAULT ? ": its buffer is not readable; if it is memory of a device, set "
                             "TUTTI_SINGLE_COPY=off"
                           : ", as set-up could: set TUTTI_SINGLE_COPY=off"),
      reason);
}

bool SharedCall::try_get() {
  if (plan_.get == Get::root_whole || plan_.get == Get::root_block) {
    if (!get_from(arguments_.root)) return false;
  } else {
    for (; member_ != channel_->rank(); member_ = next(member_)) {
      if (!get_from(member_)) return false;
    }
    member_ = next(channel_->rank());
  }
  ++got_chunks_;
  publish_read(got_chunks_);
  return true;
}

void SharedCall::publish_read(std::uint64_t chunks) {
  chunks_.release(chunks);
  notify();
}

/// A call whose data fits into slots notifies once per advance(): the check for sleepers is a large
/// part of its time.
void SharedCall::notify() {
  if (plan_.where != Where::slot) return channel_->notify();
  notify_is_due_ = true;
}

void SharedCall::copy_own_block() const {
  const auto own = static_cast<std::size_t>(channel_->rank()) * plan_.unit_bytes;
  const auto copy = [&](std::byte* to, const std::byte* from) {
    if (to != from) copy_out(to, from, plan_.unit_bytes);
  };
  if (plan_.get == Get::all_whole) {
    copy(arguments_.output + own, arguments_.input);
  } else if (plan_.get == Get::all_blocks) {
    copy(arguments_.output + own, arguments_.input + own);
  } else if (arguments_.operation == Operation::scatter && is_root()) {
    copy(arguments_.output, arguments_.input + own);
  }
}

}  // namespace tutti::engine
