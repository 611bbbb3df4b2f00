#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/shape.hpp"
#include "cases.hpp"
#include "numbers.hpp"

namespace tutti::gpu_test {

/// A value that no operation produces.
inline constexpr std::byte poison_value{0xA5};

/// Input and expected result of one rank.
class Problem {
 public:
  Problem(const Case& one, int rank, int size, std::uint64_t seed)
      : case_(one),
        shape_(shape_of(one.operation)),
        rank_(rank),
        size_(size),
        source_{one.type, one.op, seed, size} {
    for (int other = 0; other < size; ++other) {
      counts_.push_back(block(other));
      send_counts_.push_back(exchanged(rank, other));
      recv_counts_.push_back(exchanged(other, rank));
    }
  }

  [[nodiscard]] bool has_send() const {
    return shape_.send != Extent::none && (!shape_.send_at_root_only || is_root());
  }
  [[nodiscard]] bool has_recv() const {
    return shape_.recv != Extent::none && (!shape_.recv_at_root_only || is_root());
  }
  [[nodiscard]] std::size_t send_elements() const { return elements(shape_.send, send_counts_); }
  [[nodiscard]] std::size_t recv_elements() const { return elements(shape_.recv, recv_counts_); }
  /// In-place: offset of this rank's input in the buffer.
  [[nodiscard]] std::size_t own_offset() const {
    return shape_.send == Extent::one && shape_.recv == Extent::all ? offset(rank_) : 0;
  }
  [[nodiscard]] bool in_place_here() const {
    if (!case_.in_place) return false;
    return !shape_.rooted || shape_.send == shape_.recv || is_root();
  }

  [[nodiscard]] std::vector<std::byte> input(int of_rank, std::size_t first,
                                             std::size_t count) const {
    return contribution(source_, of_rank, first, count);
  }
  [[nodiscard]] std::vector<std::byte> own_input() const {
    return input(rank_, 0, send_elements());
  }
  [[nodiscard]] std::vector<std::byte> root_input() const {
    return input(case_.root, 0, case_.count);
  }

  [[nodiscard]] Collective call() const {
    Collective call{.operation = case_.operation,
                    .type = case_.type,
                    .op = case_.op,
                    .factor = factor_of(rank_),
                    .root = case_.root};
    if (!shape_.counts_differ) return call;
    if (shape_.rooted && !is_root()) return call;
    const bool exchange = case_.operation == Operation::all_to_all_v;
    call.counts = exchange ? send_counts_ : counts_;
    if (exchange) call.recv_counts = recv_counts_;
    return call;
  }

  /// Empty if `found`, the receive buffer, is correct.
  [[nodiscard]] std::string judge(const std::vector<std::byte>& found) const {
    const auto element_bytes = size_of(case_.type);
    if (shape_.reduces) {
      const auto first = case_.operation == Operation::reduce_scatter ||
                                 case_.operation == Operation::reduce_scatter_v
                             ? offset(rank_)
                             : 0;
      for (std::size_t i = 0; i < found.size() / element_bytes; ++i) {
        const auto wrong = difference(source_, first + i, found.data() + i * element_bytes);
        if (!wrong.empty()) return fmt::format("element {} is {}", i, wrong);
      }
      return {};
    }
    const auto due = expected_moved();
    const auto differs = std::mismatch(found.begin(), found.end(), due.begin(), due.end());
    if (differs.first == found.end() && differs.second == due.end()) return {};
    return fmt::format("byte {} of {} is wrong", differs.first - found.begin(), due.size());
  }

 private:
  [[nodiscard]] bool is_root() const { return rank_ == case_.root; }
  /// v-forms: blocks of different lengths, some empty.
  [[nodiscard]] std::size_t block(int rank) const {
    if (!shape_.counts_differ) return case_.count;
    return rank % 3 == 1 ? 0 : case_.count + 2 * static_cast<std::size_t>(rank);
  }
  [[nodiscard]] std::size_t exchanged(int from, int to) const {
    if (case_.operation != Operation::all_to_all_v) return block(to);
    return (from + to) % 3 == 1 ? 0 : case_.count + static_cast<std::size_t>(from + 3 * to);
  }
  [[nodiscard]] std::size_t offset(int rank) const {
    return std::accumulate(counts_.begin(), counts_.begin() + rank, std::size_t{0});
  }
  [[nodiscard]] std::size_t elements(Extent extent,
                                     const std::vector<std::size_t>& exchange) const {
    if (extent == Extent::none) return 0;
    if (extent == Extent::one) return block(rank_);
    const auto& counts = case_.operation == Operation::all_to_all_v ? exchange : counts_;
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }

  [[nodiscard]] std::vector<std::byte> expected_moved() const {
    switch (case_.operation) {
      case Operation::broadcast:
      case Operation::fan_out:
        return root_input();
      case Operation::scatter:
      case Operation::scatter_v:
        return input(case_.root, offset(rank_), block(rank_));
      default:
        break;
    }
    std::vector<std::byte> due;
    for (int from = 0; from < size_; ++from) {
      const bool exchange =
          case_.operation == Operation::all_to_all || case_.operation == Operation::all_to_all_v;
      std::size_t first = 0;
      for (int to = 0; exchange && to < rank_; ++to) first += exchanged(from, to);
      const auto part = input(from, first, exchange ? exchanged(from, rank_) : block(from));
      due.insert(due.end(), part.begin(), part.end());
    }
    return due;
  }

  Case case_;
  Shape shape_;
  int rank_;
  int size_;
  Source source_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> send_counts_;
  std::vector<std::size_t> recv_counts_;
};

}  // namespace tutti::gpu_test
