// The schedules that a communicator keeps.
#include "algorithm/schedule_cache.hpp"

#include <array>
#include <string>

#include "support/catch.hpp"

namespace tutti::algorithm::test {
namespace {

CheckedCollective all_reduce_of(std::size_t count) {
  return {.operation = Operation::all_reduce, .type = Type::f32, .count = count};
}

/// `patterns` make it large.
Schedule named(std::string name, std::size_t patterns = 0) {
  Schedule schedule{.algorithm = std::move(name), .loops = {}};
  schedule.loops.emplace_back().steps.resize(patterns);
  return schedule;
}

/// Kept by insert(), or the empty string.
std::string found(ScheduleCache& cache, const CheckedCollective& call,
                  std::string_view algorithm = "") {
  const auto schedule = cache.find(call, algorithm);
  return schedule ? schedule->algorithm : "";
}

}  // namespace

TEST_CASE("a schedule is found for calls that agree in all that it depends on") {
  ScheduleCache cache;
  const std::array<std::size_t, 2> counts{3, 4};
  const std::array<std::size_t, 2> recv_counts{4, 5};
  const CheckedCollective call{.operation = Operation::all_to_all_v,
                               .type = Type::f32,
                               .root = 1,
                               .count = 3,
                               .counts = counts,
                               .recv_counts = recv_counts};
  cache.insert(call, "ring", named("kept"));
  CHECK(found(cache, call, "ring") == "kept");

  // Buffers, the operator and where the counts lie do not matter.
  auto same = call;
  std::array<float, 9> buffer{};
  const auto counts_elsewhere = counts;
  same.send = buffer.data();
  same.recv = buffer.data();
  same.op = Operator::max;
  same.counts = counts_elsewhere;
  CHECK(found(cache, same, "ring") == "kept");

  CHECK(found(cache, call, "") == "");
  const auto differs = [&](auto change) {
    auto other = call;
    change(other);
    return found(cache, other, "ring") == "";
  };
  CHECK(differs([](auto& other) { other.operation = Operation::all_gather_v; }));
  CHECK(differs([](auto& other) { other.type = Type::f64; }));
  CHECK(differs([](auto& other) { other.root = 0; }));
  CHECK(differs([](auto& other) { other.count = 4; }));
  CHECK(differs([](auto& other) { other.in_place = true; }));
  CHECK(differs([&](auto& other) { other.counts = recv_counts; }));
  CHECK(differs([&](auto& other) { other.counts = other.counts.first(1); }));
  CHECK(differs([&](auto& other) { other.recv_counts = counts; }));
}

TEST_CASE("the counts of a v-form are kept, not referred to") {
  ScheduleCache cache;
  std::array<std::size_t, 2> counts{3, 4};
  const CheckedCollective call{
      .operation = Operation::all_gather_v, .count = 3, .counts = counts, .recv_counts = {}};
  cache.insert(call, "", named("kept"));
  counts = {3, 5};
  CHECK(found(cache, call) == "");
  counts = {3, 4};
  CHECK(found(cache, call) == "kept");
}

TEST_CASE("the least recently used schedules go first") {
  ScheduleCache cache;
  for (std::size_t i = 0; i < ScheduleCache::max_schedules; ++i) {
    cache.insert(all_reduce_of(i), "", named(std::to_string(i)));
  }
  CHECK(found(cache, all_reduce_of(0)) == "0");
  for (std::size_t i = 0; i < 5; ++i) cache.insert(all_reduce_of(100 + i), "", named("new"));
  CHECK(cache.size() == ScheduleCache::max_schedules);
  CHECK(found(cache, all_reduce_of(0)) == "0");
  for (std::size_t i = 1; i <= 5; ++i) CHECK(found(cache, all_reduce_of(i)) == "");
  for (std::size_t i = 6; i < ScheduleCache::max_schedules; ++i) {
    CHECK(found(cache, all_reduce_of(i)) == std::to_string(i));
  }
  for (std::size_t i = 0; i < 5; ++i) CHECK(found(cache, all_reduce_of(100 + i)) == "new");
}

TEST_CASE("the memory of all schedules is bounded, and a call in flight keeps its own") {
  ScheduleCache cache;
  const auto third = ScheduleCache::max_bytes / 3 / sizeof(StepPattern);
  const auto in_flight = cache.insert(all_reduce_of(1), "", named("1", third));
  cache.insert(all_reduce_of(2), "", named("2", third));
  cache.insert(all_reduce_of(3), "", named("3", third));
  CHECK(cache.size() == 2);
  CHECK(cache.bytes() <= ScheduleCache::max_bytes);
  CHECK(found(cache, all_reduce_of(1)) == "");
  CHECK(in_flight->loops.front().steps.size() == third);

  // One that is too large displaces none.
  const auto huge = cache.insert(all_reduce_of(4), "", named("4", 4 * third));
  CHECK(huge->algorithm == "4");
  CHECK(found(cache, all_reduce_of(4)) == "");
  CHECK(found(cache, all_reduce_of(2)) == "2");
  CHECK(found(cache, all_reduce_of(3)) == "3");
}

}  // namespace tutti::algorithm::test
