#pragma once

#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::algorithm {

/// Reductions in rank order: every rank receives all raw contributions to its block and combines
/// them in one pass over the data. Each pass moves one chunk of each block, so scratch holds one
/// chunk of each rank:
///
///     rank r      send chunk k of block r + s to rank r + s
///                 recv from rank r − s, s = 1 … p − 1
///     scratch     | chunk of rank 0 | chunk of rank 1 | … | chunk of rank p − 1 |
///     then        chunk k of the result = chunk of rank 0 ⊕ chunk of rank 1 ⊕ …
class RawExchange {
 public:
  RawExchange(const ScheduleArguments& arguments, Blocks blocks);

  [[nodiscard]] const Blocks& blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t chunk() const { return chunk_; }
  [[nodiscard]] std::int64_t passes() const { return divide_up(blocks_.longest(), chunk_); }
  /// `size` chunks.
  [[nodiscard]] std::int64_t scratch_elements() const { return blocks_.size() * chunk_; }

  /// Appends the rounds that fill scratch, and the step that combines it into this pass's chunk of
  /// this rank's block in `to`.
  void append(Schedule& schedule, Buffer to, const Piece& result) const;
  /// This pass's chunk of a region.
  [[nodiscard]] Piece chunk_of_pass(const Region& region) const {
    return {.offset = {region.begin, 0, 0, chunk_}, .length = chunk_, .end = {region.end}};
  }
  /// This pass's chunk of a region in scratch that begins at `begin` and holds one chunk.
  [[nodiscard]] Piece in_scratch(std::int64_t begin, std::int64_t block_length) const {
    return {.offset = {begin}, .length = chunk_, .end = {begin + block_length, 0, 0, -chunk_}};
  }

 private:
  const ScheduleArguments& arguments_;
  Blocks blocks_;
  std::int64_t chunk_;
};

}  // namespace tutti::algorithm
