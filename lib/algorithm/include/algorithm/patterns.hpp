#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// The region of a pattern's step: [offset, min(offset + length, end)) in elements.
struct Piece {
  Affine offset;
  std::int64_t length = 0;
  Affine end;
};

inline std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

inline Piece whole(const Region& region) {
  return {.offset = {region.begin}, .length = region.length(), .end = {region.end}};
}

inline Piece whole(std::int64_t count) {
  return whole({0, count});
}

/// Chunk j of the region in iteration (i, j) of a loop.
inline Piece chunk_of(const Region& region, std::int64_t chunk) {
  return {.offset = {region.begin, 0, chunk}, .length = chunk, .end = {region.end}};
}

inline Piece chunk_of(const ScheduleArguments& arguments) {
  return chunk_of({0, arguments.count}, arguments.chunk);
}

/// The chunk of pieces that are published.
inline std::int64_t published_chunk(const ScheduleArguments& arguments) {
  return std::min(arguments.chunk, arguments.max_published);
}

inline std::int64_t chunk_count(const ScheduleArguments& arguments) {
  return divide_up(arguments.count, arguments.chunk);
}

/// The longest chunk, at most arguments.chunk, that cuts `length` into nearly equal parts.
inline std::int64_t even_chunk(const ScheduleArguments& arguments, std::int64_t length) {
  return length == 0 ? 1 : divide_up(length, divide_up(length, arguments.chunk));
}

/// The buffer of this rank's contribution.
inline Buffer own_buffer(const ScheduleArguments& arguments) {
  return arguments.in_place ? Buffer::output : Buffer::input;
}

inline StepPattern make_pattern(StepKind kind, int peer, Buffer to, Buffer from, const Piece& p) {
  return {.kind = kind,
          .peer = peer,
          .to = to,
          .from = from,
          .offset = p.offset,
          .length = p.length,
          .end = p.end};
}

inline StepPattern send_to(int peer, Buffer from, const Piece& piece) {
  return make_pattern(StepKind::send, peer, from, from, piece);
}

inline StepPattern recv_from(int peer, Buffer to, const Piece& piece) {
  return make_pattern(StepKind::recv, peer, to, to, piece);
}

/// `to`[offset] = `from`[offset + shift] ⊕ received data.
inline StepPattern recv_reduce_from(int peer, Buffer to, Buffer from, const Piece& piece,
                                    const Affine& shift = {}) {
  StepPattern pattern = make_pattern(StepKind::recv_reduce, peer, to, from, piece);
  pattern.from_shift = shift;
  return pattern;
}

/// Makes `from`[offset] readable for the host's ranks.
inline StepPattern publish_of(Buffer from, const Piece& piece) {
  return make_pattern(StepKind::publish, -1, from, from, piece);
}

/// Opens a chunk without data of this rank.
inline StepPattern publish_nothing() {
  return publish_of(Buffer::output, {});
}

/// `to`[offset] = the same elements as `peer` has published them.
inline StepPattern read_of(int peer, Buffer to, const Piece& piece) {
  return make_pattern(StepKind::read, peer, to, to, piece);
}

/// `to`[offset] = `from`[offset] ⊕ the same elements as `peer` has published them.
inline StepPattern read_reduce_of(int peer, Buffer to, Buffer from, const Piece& piece) {
  return make_pattern(StepKind::read_reduce, peer, to, from, piece);
}

inline StepPattern release_chunk() {
  return make_pattern(StepKind::release, -1, Buffer::output, Buffer::output, {});
}

/// `to`[offset] ⊕= or = `from`[offset + shift].
inline StepPattern local(StepKind kind, Buffer to, Buffer from, const Piece& piece,
                         const Affine& shift = {}) {
  StepPattern pattern = make_pattern(kind, -1, to, from, piece);
  pattern.from_shift = shift;
  return pattern;
}

/// Copies into `to`[to.begin, to.end) the elements of `from` from `from_begin` on.
inline StepPattern copy_of(Buffer to, const Region& region, Buffer from, std::int64_t from_begin) {
  return local(StepKind::copy, to, from, whole(region), {from_begin - region.begin});
}

/// The schedule of a single rank: out of place, copies input to output.
inline Schedule alone(std::string algorithm, const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = std::move(algorithm), .loops = {}, .scratch_elements = 0};
  const std::int64_t count = arguments.counts.empty() ? arguments.count : arguments.counts.front();
  if (!arguments.in_place && count > 0)
    schedule.loops.push_back({1, 1, {copy_of(Buffer::output, {0, count}, Buffer::input, 0)}});
  return schedule;
}

/// For rooted operations: only the root works in place; the others have no output.
inline ScheduleArguments in_place_at_root(ScheduleArguments arguments) {
  arguments.in_place = arguments.in_place && arguments.rank == arguments.root;
  return arguments;
}

/// `to`[offset] = all `parts` that begin at `from`[offset + shift + k·stride], in order.
inline StepPattern combine_from(Buffer to, const Piece& piece, Buffer from, const Affine& shift,
                                int parts, std::int64_t stride) {
  StepPattern pattern = local(StepKind::combine, to, from, piece, shift);
  pattern.parts = parts;
  pattern.stride = stride;
  return pattern;
}

}  // namespace tutti::algorithm
