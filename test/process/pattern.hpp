#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/fork_ranks.hpp"
#include "tutti/types.hpp"

/// Data that says where it came from: a small value for each rank and index. Apart from the
/// pattern that the command uses, so that neither hides a fault of the other.
namespace tutti::test {

/// 0 to 96; neighbouring ranks, elements and blocks differ.
[[nodiscard]] constexpr int value_of(int rank, std::size_t i) {
  return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 31 + (i >> 9) * 5) % 97);
}

/// Memory for `count` elements whose address is `offset` bytes beyond an aligned one, between
/// bytes that nobody may touch.
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
  /// Throws where an element is not what is due, or a byte around them was touched.
  template <class F>
  void require(F due_at, const std::string& what) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const T due = due_at(i);
      const T found = get(i);
      // NaN counts as wrong: nothing here is due to be one.
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

/// Ends the test where an all_reduce over `count` elements gives anything wrong.
inline void require_sum(Communicator& communicator, std::size_t count = 1000) {
  std::vector<std::int32_t> data(count, communicator.rank() + 1);
  communicator.all_reduce(in_place, std::span(data), sum);
  const int due = communicator.size() * (communicator.size() + 1) / 2;
  for (const auto value : data) expect(value == due, "WRONG DATA in all_reduce");
}

inline constexpr int sizes[] = {1, 2, 3, 4, 5, 8};

}  // namespace tutti::test
