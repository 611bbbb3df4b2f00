#include "circulant.hpp"

#include <algorithm>

#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

namespace {

std::int64_t length_of(const StepPattern& pattern) {
  return pattern.end.start - pattern.offset.start;
}

}  // namespace

std::vector<CirculantRound> Circulant::rounds(int size) {
  std::vector<CirculantRound> rounds;
  for (int far = size; far > 1; far = rounds.back().near) rounds.push_back({(far + 1) / 2, far});
  return rounds;
}

std::array<PositionRange, 2> Circulant::positions(int own, int first, int last, int size) {
  const int begin = (own + first) % size;
  const int end = begin + last - first;
  return {PositionRange{begin, std::min(end, size)}, PositionRange{0, std::max(0, end - size)}};
}

std::array<Region, 2> Circulant::after_own(int first, int last) const {
  std::array<Region, 2> pieces;
  const auto all = positions(order_.position(), first, last, blocks_.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].empty()) pieces[i] = blocks_.range(all[i].begin, all[i].end);
  }
  return pieces;
}

void Circulant::exchange(Schedule& schedule, const StepPattern& send,
                         const StepPattern& take) const {
  const std::int64_t longer = std::max(length_of(send), length_of(take));
  append_round(schedule, {1, divide_up(longer, chunk_), {send, take}});
}

void Circulant::gather(Schedule& schedule, Buffer buffer) const {
  const auto backwards = rounds(blocks_.size());
  for (auto round = backwards.rbegin(); round != backwards.rend(); ++round) {
    const auto given = after_own(0, round->far - round->near);
    const auto taken = after_own(round->near, round->far);
    for (std::size_t i = 0; i < given.size(); ++i)
      exchange(schedule, send_to(behind(round->near), buffer, piece(given[i])),
               recv_from(ahead(round->near), buffer, piece(taken[i])));
  }
}

}  // namespace tutti::algorithm
