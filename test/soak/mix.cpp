#include "mix.hpp"

#include <fmt/format.h>

#include <vector>

namespace tutti::soak {
namespace {

void require(bool holds, const char* operation, int round) {
  test::expect(holds, fmt::format("WRONG DATA of {} in round {}", operation, round));
}

std::int32_t element(int rank, std::size_t i, int round) {
  return rank * 1000 + static_cast<std::int32_t>(i % 101) + round;
}

std::vector<std::int32_t> contribution(int rank, std::size_t count, int round) {
  std::vector<std::int32_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = element(rank, i, round);
  return data;
}

void reduce(Communicator& communicator, std::size_t count, int round) {
  const int size = communicator.size();
  auto data = contribution(communicator.rank(), count, round);
  communicator.all_reduce(in_place, std::span(data), sum);
  for (std::size_t i = 0; i < count; ++i) {
    const auto due = 1000 * (size * (size - 1) / 2) + size * element(0, i, round);
    require(data[i] == due, "all_reduce", round);
  }
}

void broadcast(Communicator& communicator, std::size_t count, int root, int round) {
  auto data = contribution(communicator.rank(), count, round);
  communicator.broadcast(std::span(data), root);
  require(data == contribution(root, count, round), "broadcast", round);
}

void gather_all(Communicator& communicator, std::size_t count, int round) {
  const auto mine = contribution(communicator.rank(), count, round);
  std::vector<std::int32_t> all(count * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(mine), std::span(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    require(all[i] == element(static_cast<int>(i / count), i % count, round), "all_gather", round);
  }
}

void ring(Communicator& communicator, std::size_t count, int round) {
  const int rank = communicator.rank();
  const int size = communicator.size();
  const int from = (rank + size - 1) % size;
  const auto mine = contribution(rank, count, round);
  std::vector<std::int32_t> theirs(count);
  communicator.send_recv(std::span(mine), (rank + 1) % size, std::span(theirs), from);
  require(theirs == contribution(from, count, round), "send_recv", round);
}

void exchange(Communicator& communicator, std::size_t count, int round) {
  const int rank = communicator.rank();
  std::vector<std::int32_t> out(count * static_cast<std::size_t>(communicator.size()));
  auto in = out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = element(rank, i % count, round) + 7 * static_cast<int>(i / count);
  }
  communicator.all_to_all(std::span<const std::int32_t>(out), std::span(in));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto due = element(static_cast<int>(i / count), i % count, round) + 7 * rank;
    require(in[i] == due, "all_to_all", round);
  }
}

}  // namespace

void mixed_round(Communicator& communicator, int round) {
  const int root = round % communicator.size();
  reduce(communicator, 4, round);
  broadcast(communicator, std::size_t{1} << 16, root, round);
  ring(communicator, round % 2 == 0 ? 100 : std::size_t{1} << 15, round);
  communicator.barrier();
  gather_all(communicator, 300, round);
  reduce(communicator, std::size_t{1} << 17, round);
  exchange(communicator, 1000, round);
  auto work = communicator.start_barrier();
  reduce(communicator, 1000, round);
  work.wait();
}

void reduce_round(Communicator& communicator, int round) {
  constexpr std::size_t counts[] = {1, 4, 1000, std::size_t{1} << 14, std::size_t{1} << 17};
  reduce(communicator, counts[static_cast<std::size_t>(round) % std::size(counts)], round);
}

}  // namespace tutti::soak
