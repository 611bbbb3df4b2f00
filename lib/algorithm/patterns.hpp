#pragma once

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// Where a pattern's step works: [offset, min(offset + length, end)) in elements.
struct Piece {
  Affine offset;
  std::int64_t length = 0;
  std::int64_t end = 0;
};

inline Piece whole(std::int64_t count) {
  return {.offset = {}, .length = count, .end = count};
}

/// Chunk j of the whole buffer in iteration (0, j).
inline Piece chunk_of(const Problem& problem) {
  return {.offset = {0, 0, problem.chunk}, .length = problem.chunk, .end = problem.count};
}

inline std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

inline std::int64_t chunk_count(const Problem& problem) {
  return divide_up(problem.count, problem.chunk);
}

inline StepPattern make_pattern(StepKind kind, int peer, Buffer to, Buffer from, const Piece& p) {
  return {.kind = kind,
          .peer = peer,
          .to = to,
          .from = from,
          .offset = p.offset,
          .length = p.length,
          .end = {p.end, 0, 0}};
}

inline StepPattern send_to(int peer, Buffer from, const Piece& piece) {
  return make_pattern(StepKind::send, peer, from, from, piece);
}

inline StepPattern recv_from(int peer, Buffer to, const Piece& piece) {
  return make_pattern(StepKind::recv, peer, to, to, piece);
}

inline StepPattern recv_reduce_from(int peer, Buffer to, Buffer from, const Piece& piece) {
  return make_pattern(StepKind::recv_reduce, peer, to, from, piece);
}

/// `to`[offset] ⊕= or = `from`[offset + shift].
inline StepPattern local(StepKind kind, Buffer to, Buffer from, const Piece& piece,
                         std::int64_t shift = 0) {
  StepPattern pattern = make_pattern(kind, -1, to, from, piece);
  pattern.from_shift = shift;
  return pattern;
}

}  // namespace tutti::algorithm
