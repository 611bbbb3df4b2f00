#include "algorithm/schedule_cache.hpp"

#include <algorithm>
#include <utility>

namespace tutti::algorithm {

namespace {

bool has_same_schedule(const CheckedCollective& a, const CheckedCollective& b) {
  const auto same = [](std::span<const std::size_t> x, std::span<const std::size_t> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  return a.count == b.count && a.operation == b.operation && a.type == b.type && a.root == b.root &&
         a.in_place == b.in_place && same(a.counts, b.counts) && same(a.recv_counts, b.recv_counts);
}

std::size_t bytes_of(const Schedule& schedule) {
  auto bytes = sizeof schedule + schedule.loops.capacity() * sizeof(Loop);
  for (const Loop& loop : schedule.loops) bytes += loop.steps.capacity() * sizeof(StepPattern);
  return bytes;
}

}  // namespace

std::shared_ptr<const Schedule> ScheduleCache::find(const CheckedCollective& call,
                                                    std::string_view algorithm) {
  for (Entry& entry : entries_) {
    if (!has_same_schedule(entry.call, call) || entry.algorithm != algorithm) continue;
    entry.used = ++uses_;
    return entry.schedule;
  }
  return nullptr;
}

std::shared_ptr<const Schedule> ScheduleCache::insert(const CheckedCollective& call,
                                                      std::string_view algorithm,
                                                      Schedule schedule) {
  Entry entry{.call = call,
              .algorithm = algorithm,
              .used = ++uses_,
              .counts = {call.counts.begin(), call.counts.end()},
              .recv_counts = {call.recv_counts.begin(), call.recv_counts.end()},
              .schedule = std::make_shared<const Schedule>(std::move(schedule))};
  entry.call.counts = entry.counts;
  entry.call.recv_counts = entry.recv_counts;
  entry.bytes = bytes_of(*entry.schedule) +
                (entry.counts.size() + entry.recv_counts.size()) * sizeof(std::size_t);
  auto kept = entry.schedule;
  if (entry.bytes > max_bytes) return kept;
  while (entries_.size() == max_schedules || bytes_ + entry.bytes > max_bytes) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    bytes_ -= oldest->bytes;
    *oldest = std::move(entries_.back());
    entries_.pop_back();
  }
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  return kept;
}

}  // namespace tutti::algorithm
