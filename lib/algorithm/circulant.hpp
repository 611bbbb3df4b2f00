#pragma once

#include <array>
#include <utility>
#include <vector>

#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

/// Gathering and scattering in ceil(log2 p) rounds for any p. Before a round of gathering each
/// position owns the blocks of `near` positions, itself and those after it; after the round, of
/// `far`:
///
///     p = 6     near far     position 0 owns 0     1     2     3     4     5
///               1    2                       |  0  |
///               2    3                       |  0     1  |
///               3    6                       |  0     1     2  |
///                                            |  0     1     2     3     4     5  |
///
/// It receives the missing blocks from the position at distance `near`, whose first blocks they
/// are. Scattering reverses this: a block received becomes a partial sum sent.
struct CirculantRound {
  int near;
  int far;
};

/// Positions from `begin` to `end` - 1.
struct PositionRange {
  int begin = 0;
  int end = 0;

  [[nodiscard]] bool empty() const noexcept { return end <= begin; }
};

class Circulant {
 public:
  /// In the order of scattering: the longest round first.
  [[nodiscard]] static std::vector<CirculantRound> rounds(int size);

  /// The positions from `first` to `last` - 1 after `own`, cyclically: up to two ranges, before
  /// and after the end.
  [[nodiscard]] static std::array<PositionRange, 2> positions(int own, int first, int last,
                                                              int size);

  Circulant(RankOrder order, Blocks blocks, std::int64_t chunk)
      : order_(std::move(order)), blocks_(std::move(blocks)), chunk_(chunk) {}

  /// The blocks from `first` to `last` - 1 positions after this rank's: up to two regions, before
  /// and after the buffer's end, split at the same block on all ranks.
  [[nodiscard]] std::array<Region, 2> after_own(int first, int last) const;
  [[nodiscard]] int ahead(int distance) const {
    return order_.rank_at(order_.position() + distance);
  }
  [[nodiscard]] int behind(int distance) const {
    return order_.rank_at(order_.position() - distance);
  }

  /// Chunk by chunk, one send beside one recv.
  void exchange(Schedule& schedule, const StepPattern& send, const StepPattern& take) const;
  /// All rounds of gathering in `buffer`, which holds this rank's block at its position.
  void gather(Schedule& schedule, Buffer buffer) const;
  [[nodiscard]] Piece piece(const Region& region) const { return chunk_of(region, chunk_); }

 private:
  RankOrder order_;
  Blocks blocks_;
  std::int64_t chunk_;
};

}  // namespace tutti::algorithm
