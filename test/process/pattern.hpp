#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/fork_ranks.hpp"
#include "tutti/types.hpp"

/// Test data that identifies its origin: a small value for each rank and index. Independent of the
/// command's pattern, so that an error in one is not hidden by the other.
namespace tutti::test {

/// 0 to 96. Neighbouring ranks, elements and blocks differ.
[[nodiscard]] constexpr int value_of(int rank, std::size_t i) {
  return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 31 + (i >> 9) * 5) % 97);
}

/// A buffer of `count` elements, `offset` bytes after an aligned address, with guard bytes around
/// it.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count, std::size_t offset = 0)
      : count_(count), begin_(guard + offset), bytes_(begin_ + count * sizeof(T) + guard, mark) {}

  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  [[nodiscard]] std::size_t count() const { return count_; }

  void set(std::size_t i, T value) {
    std::memcpy(bytes_.data() + begin_ + i * sizeof(T), &value, sizeof(T));
  }
  [[nodiscard]] T get(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + begin_ + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class F>
  void fill(F value_at) {
    for (std::size_t i = 0; i < count_; ++i) set(i, value_at(i));
  }
  void fill_from(int rank) {
    fill([rank](std::size_t i) { return static_cast<T>(value_of(rank, i)); });
  }
  /// Throws if an element is wrong, or a guard byte has changed.
  template <class F>
  void require(F due_at, const std::string& what) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const T due = due_at(i);
      const T found = get(i);
      // NaN is wrong, since none is expected.
      if (found == due) continue;
      expect(false, what + ": WRONG DATA: element " + std::to_string(i) + " of " +
                        std::to_string(count_) + " is " + std::to_string(found) + " where " +
                        std::to_string(due) + " is due");
    }
    for (std::size_t i = 0; i < guard; ++i) {
      const bool intact =
          bytes_[begin_ - 1 - i] == mark && bytes_[begin_ + count_ * sizeof(T) + i] == mark;
      if (!intact) expect(false, what + ": WRONG DATA: a byte beside the buffer was changed");
    }
  }
  void require_from(int rank, const std::string& what) const {
    require([rank](std::size_t i) { return static_cast<T>(value_of(rank, i)); }, what);
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr unsigned char mark = 0xC3;
  std::size_t count_;
  std::size_t begin_;
  std::vector<unsigned char> bytes_;
};

/// Throws if an all_reduce over `count` elements gives a wrong result.
inline void require_sum(Communicator& communicator, std::size_t count = 1000) {
  std::vector<std::int32_t> data(count, communicator.rank() + 1);
  communicator.all_reduce(in_place, std::span(data), sum);
  const int due = communicator.size() * (communicator.size() + 1) / 2;
  for (const auto value : data) expect(value == due, "WRONG DATA in all_reduce");
}

inline constexpr int sizes[] = {1, 2, 3, 4, 5, 8};

}  // namespace tutti::test
