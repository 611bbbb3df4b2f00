#include "transport/ring.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/copy.hpp"

namespace tutti::transport {
namespace {

// Long runs are shown to the other side in pieces, so that both copy at once.
constexpr std::size_t piece_bytes = std::size_t{16} << 10;

}  // namespace

/// Only before it comes to the end for the first time: afterwards places would change.
void RingWriter::grow(std::size_t bytes) {
  while (length_ < bytes_.size() && written_ + bytes > length_) {
    if (!take_(2 * length_)) {
      // Before anything is written that this matters for.
      state_->length.store(length_, std::memory_order_relaxed);
      take_ = nullptr;
      return;
    }
    length_ *= 2;
  }
  if (length_ == bytes_.size()) take_ = nullptr;
}

std::size_t RingWriter::write(std::span<const iovec> parts, bool streaming) {
  const auto copy = streaming ? stream_bytes : copy_bytes;
  const auto begin = written_;
  std::size_t wanted = 0;
  for (const auto& part : parts) wanted += part.iov_len;
  if (take_ && written_ + wanted > length_) grow(wanted);
  const auto limit = has_space(wanted) ? begin + wanted : read_ + length_;
  std::size_t hidden = 0;
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
      hidden += length;
      if (hidden >= piece_bytes) {
        publish();
        hidden = 0;
      }
    }
    if (left > 0) break;
  }
  if (hidden > 0) publish();
  return static_cast<std::size_t>(written_ - begin);
}

std::size_t RingReader::available() const {
  const auto written = state_->written.load(std::memory_order_acquire);
  // After align() the writer may not have come as far.
  if (written <= read_) return 0;
  return static_cast<std::size_t>(std::min<std::uint64_t>(written - read_, bytes_.size()));
}

std::size_t RingReader::length() const {
  const auto length = state_->length.load(std::memory_order_relaxed);
  return std::has_single_bit(length) && length < bytes_.size() ? static_cast<std::size_t>(length)
                                                               : bytes_.size();
}

std::span<const std::byte> RingReader::peek() const {
  const auto there = available();
  const auto ring = bytes_.first(length());
  const auto at = static_cast<std::size_t>(read_ & (ring.size() - 1));
  return ring.subspan(at, std::min(there, ring.size() - at));
}

bool RingReader::starts_with(std::span<const std::byte> bytes) const {
  const auto ring = bytes_.first(length());
  const auto at = static_cast<std::size_t>(read_ & (ring.size() - 1));
  const auto before_seam = std::min(bytes.size(), ring.size() - at);
  if (bytes.size() - before_seam > ring.size()) return false;
  return std::memcmp(ring.data() + at, bytes.data(), before_seam) == 0 &&
         std::memcmp(ring.data(), bytes.data() + before_seam, bytes.size() - before_seam) == 0;
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
      const auto there = peek();
      if (there.empty()) return total;
      const auto length = std::min({left, there.size(), piece_bytes});
      copy_bytes(to, there.data(), length);
      consume(length);
      to += length;
      left -= length;
      total += length;
    }
  }
  return total;
}

}  // namespace tutti::transport
