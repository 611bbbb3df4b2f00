#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/bootstrap.hpp"

namespace tutti {

/// Appends integers (little-endian) and strings (16-bit length first) to a growing byte string.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  ByteWriter& put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    return *this;
  }
  ByteWriter& put(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  /// Truncates at 65,535 bytes; no message has longer strings.
  ByteWriter& put_string(std::string_view text) {
    text = text.substr(0, UINT16_MAX);
    put(static_cast<std::uint16_t>(text.size()));
    return put(std::as_bytes(std::span(text)));
  }
  [[nodiscard]] const Bytes& bytes() const& { return bytes_; }
  [[nodiscard]] Bytes bytes() && { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Decodes the output of ByteWriter. Safe on hostile input: after the first read past the end all
/// reads fail and ok() is false; lengths are checked against the remaining bytes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    if (!take(sizeof(T))) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<std::uint64_t>(taken_[i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  template <std::size_t N>
  void get(std::span<std::byte, N> out) {
    if (take(out.size())) std::memcpy(out.data(), taken_.data(), out.size());
  }
  std::string get_string() {
    const auto length = get<std::uint16_t>();
    if (!take(length)) return {};
    return {reinterpret_cast<const char*>(taken_.data()), taken_.size()};
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  bool take(std::size_t length) {
    ok_ = ok_ && rest_.size() >= length;
    if (!ok_) return false;
    taken_ = rest_.first(length);
    rest_ = rest_.subspan(length);
    return true;
  }
  std::span<const std::byte> rest_;
  std::span<const std::byte> taken_;
  bool ok_ = true;
};

}  // namespace tutti
