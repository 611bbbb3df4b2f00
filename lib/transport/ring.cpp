#include "transport/ring.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/copy.hpp"

namespace tutti::transport {
namespace {

// Long writes are published in pieces, so that both sides copy concurrently.
constexpr std::size_t piece_bytes = std::size_t{16} << 10;

}  // namespace

/// Only before the first wrap-around: afterwards offsets would change.
void RingWriter::grow(std::size_t bytes) {
  while (length_ < bytes_.size() && written_ + bytes > length_) {
    if (!allocate_(2 * length_)) {
      // Before any write that depends on it.
      state_->length.store(length_, std::memory_order_relaxed);
      allocate_ = nullptr;
      return;
    }
    length_ *= 2;
  }
  if (length_ == bytes_.size()) allocate_ = nullptr;
}

std::size_t RingWriter::write(std::span<const iovec> parts, bool streaming) {
  const auto copy = streaming ? stream_bytes : copy_bytes;
  const auto begin = written_;
  std::size_t wanted = 0;
  for (const auto& part : parts) wanted += part.iov_len;
  if (allocate_ && written_ + wanted > length_) grow(wanted);
  const auto limit = has_space(wanted) ? begin + wanted : read_ + length_;
  std::size_t unpublished = 0;
  for (const auto& part : parts) {
    const auto* from = static_cast<const std::byte*>(part.iov_base);
    auto left = part.iov_len;
    while (left > 0 && written_ < limit) {
      const auto at = static_cast<std::size_t>(written_ & (length_ - 1));
      const auto length =
          std::min({left, length_ - at, static_cast<std::size_t>(limit - written_), piece_bytes});
      copy(bytes_.data() + at, from, length);
      from += length;
      left -= length;
      written_ += length;
      unpublished += length;
      if (unpublished >= piece_bytes) {
        publish();
        unpublished = 0;
      }
    }
    if (left > 0) break;
  }
  if (unpublished > 0) publish();
  return static_cast<std::size_t>(written_ - begin);
}

std::size_t RingReader::available() const {
  const auto written = state_->written.load(std::memory_order_acquire);
  // After align() the writer's position may be behind.
  if (written <= read_) return 0;
  return static_cast<std::size_t>(std::min<std::uint64_t>(written - read_, bytes_.size()));
}

std::size_t RingReader::length() const {
  const auto length = state_->length.load(std::memory_order_relaxed);
  return std::has_single_bit(length) && length < bytes_.size() ? static_cast<std::size_t>(length)
                                                               : bytes_.size();
}

std::span<const std::byte> RingReader::peek() const {
  const auto available_bytes = available();
  const auto ring = bytes_.first(length());
  const auto at = static_cast<std::size_t>(read_ & (ring.size() - 1));
  return ring.subspan(at, std::min(available_bytes, ring.size() - at));
}

bool RingReader::starts_with(std::span<const std::byte> bytes) const {
  const auto ring = bytes_.first(length());
  const auto at = static_cast<std::size_t>(read_ & (ring.size() - 1));
  const auto before_end = std::min(bytes.size(), ring.size() - at);
  if (bytes.size() - before_end > ring.size()) return false;
  return std::memcmp(ring.data() + at, bytes.data(), before_end) == 0 &&
         std::memcmp(ring.data(), bytes.data() + before_end, bytes.size() - before_end) == 0;
}

void RingReader::consume(std::size_t bytes) {
  read_ += bytes;
  state_->read.store(read_, std::memory_order_release);
}

std::size_t RingReader::read(std::span<const iovec> parts) {
  std::size_t total = 0;
  for (const auto& part : parts) {
    auto* to = static_cast<std::byte*>(part.iov_base);
    auto left = part.iov_len;
    while (left > 0) {
      const auto available_bytes = peek();
      if (available_bytes.empty()) return total;
      const auto length = std::min({left, available_bytes.size(), piece_bytes});
      copy_bytes(to, available_bytes.data(), length);
      consume(length);
      to += length;
      left -= length;
      total += length;
    }
  }
  return total;
}

}  // namespace tutti::transport
