#pragma once

#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::algorithm {

/// Reductions in rank order: everyone gets all raw contributions to its own block and combines them
/// at once. Goes by passes, a chunk of each block in each, so that scratch need hold no more than
/// one chunk of each rank:
///
///     rank r      send chunk k of block r + s to rank r + s      recv from rank r − s, s = 1 … p −
///     1 scratch     | chunk of rank 0 | chunk of rank 1 | … | chunk of rank p − 1 | then chunk k
///     of the result = chunk of rank 0 ⊕ chunk of rank 1 ⊕ …
class RawExchange {
 public:
  RawExchange(const Problem& problem, Blocks blocks);

  [[nodiscard]] const Blocks& blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t chunk() const { return chunk_; }
  [[nodiscard]] std::int64_t passes() const { return divide_up(blocks_.longest(), chunk_); }
  /// `size` chunks.
  [[nodiscard]] std::int64_t scratch_elements() const { return blocks_.size() * chunk_; }

  /// The rounds that fill scratch, and the step that combines what is there to the pass's chunk of
  /// the own block at `to`.
  void append(Schedule& schedule, Buffer to, const Piece& result) const;
  /// The pass's chunk of a region.
  [[nodiscard]] Piece chunk_of_pass(const Region& region) const {
    return {.offset = {region.begin, 0, 0, chunk_}, .length = chunk_, .end = {region.end}};
  }
  /// The pass's chunk of a region in scratch that begins at `begin` and holds no more than it.
  [[nodiscard]] Piece in_scratch(std::int64_t begin, std::int64_t block_length) const {
    return {.offset = {begin}, .length = chunk_, .end = {begin + block_length, 0, 0, -chunk_}};
  }

 private:
  const Problem& problem_;
  Blocks blocks_;
  std::int64_t chunk_;
};

}  // namespace tutti::algorithm
