#include "loops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace tutti::test {

void reduce_and_check(Rank& rank, Communicator& communicator, std::vector<float>& data,
                      const CallOptions& options) {
  const int size = rank.size();
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(rank.rank() + 1) + static_cast<float>(i % 61);
  }
  communicator.all_reduce(in_place, std::span(data), sum, options);
  const auto ranks_sum = static_cast<float>(size * (size + 1) / 2);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto due = ranks_sum + static_cast<float>(size) * static_cast<float>(i % 61);
    if (data[i] != due) {
      expect(false, fmt::format("WRONG DATA: element {} of {} is {} where {} is due", i,
                                data.size(), data[i], due));
    }
  }
}

void reduce_forever(Rank& rank, std::size_t count, const Options& options) {
  auto& communicator = rank.communicator(options);
  std::vector<float> data(count);
  while (true) {
    rank.stamp();
    reduce_and_check(rank, communicator, data);
    rank.mark();
  }
}

void gather_forever(Rank& rank, std::size_t count) {
  auto& communicator = rank.communicator();
  std::vector<float> mine(count);
  std::vector<float> all(count * static_cast<std::size_t>(rank.size()));
  for (int round = 0;; ++round) {
    rank.stamp();
    std::fill(mine.begin(), mine.end(), static_cast<float>(round + rank.rank()));
    communicator.all_gather(mine, all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      expect(all[i] == static_cast<float>(round + static_cast<int>(i / count)), "WRONG DATA");
    }
    rank.mark();
  }
}

void send_around_forever(Rank& rank, std::size_t count) {
  auto& communicator = rank.communicator();
  const int from = (rank.rank() + rank.size() - 1) % rank.size();
  std::vector<float> mine(count);
  std::vector<float> got(count);
  for (int round = 0;; ++round) {
    rank.stamp();
    std::fill(mine.begin(), mine.end(), static_cast<float>(round + rank.rank()));
    communicator.send_recv(std::span<const float>(mine), (rank.rank() + 1) % rank.size(),
                           std::span(got), from);
    const auto due = static_cast<float>(round + from);
    expect(std::all_of(got.begin(), got.end(), [&](float v) { return v == due; }), "WRONG DATA");
    rank.mark();
  }
}

int reduce_until_released(Rank& rank, Communicator& communicator, std::size_t count) {
  std::vector<float> data(count);
  std::array<std::int32_t, 1> enough{0};
  int rounds = 0;
  while (enough[0] == 0) {
    reduce_and_check(rank, communicator, data);
    rank.mark();
    ++rounds;
    enough[0] = rank.is_released() ? 1 : 0;
    communicator.all_reduce(in_place, std::span(enough), max);
  }
  return rounds;
}

std::string list(const std::vector<int>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

}  // namespace tutti::test
