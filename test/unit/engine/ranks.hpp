#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "control/group.hpp"
#include "engine/execution.hpp"
#include "support/memory_links.hpp"

/// Runs the schedules of all ranks of a job on real data, in one thread.
namespace tutti::engine::test {

/// One rank's memory. In place, `input` is unused.
struct RankMemory {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  std::vector<std::byte> scratch;
};

struct Job {
  std::vector<algorithm::Schedule> schedules;
  std::vector<RankMemory> memory;
  bool in_place = true;
  std::size_t element_bytes = 1;
  transport::ReduceFunction reduce = nullptr;
  CombineFunction combine = nullptr;
  std::size_t piece = 1 << 20;  ///< bytes that a stream moves at once
  std::uint64_t seed = 0;       ///< for the order in which ranks advance
};

/// Returns false if the ranks stop before all are done.
inline bool run(Job& job) {
  transport::MemoryNetwork network;
  const transport::CallContext call{.key = {.sequence = 1}};
  std::deque<transport::MemoryLinks> links;
  std::deque<Execution> executions;
  const auto size = job.schedules.size();
  const auto world = control::Group::whole_job(0, static_cast<int>(size)).world;
  for (std::size_t rank = 0; rank < size; ++rank) {
    auto& memory = job.memory[rank];
    memory.scratch.resize(static_cast<std::size_t>(job.schedules[rank].scratch_elements) *
                          job.element_bytes);
    links.emplace_back(network, static_cast<int>(rank), job.piece);
    executions.emplace_back(
        job.schedules[rank],
        Memory{.input = job.in_place ? memory.output.data() : memory.input.data(),
               .output = memory.output.data(),
               .scratch = memory.scratch.data(),
               .element_bytes = job.element_bytes,
               .reduce = job.reduce,
               .combine = job.combine},
        Execution::Names{call, world}, links.back());
  }
  std::mt19937_64 random(job.seed);
  std::vector<bool> done(size);
  std::size_t left = size;
  bool moved = true;
  while (left > 0) {
    const auto before = left;
    for (std::size_t i = 0; i < size; ++i) {
      // Delay some ranks for a while.
      const auto rank = random() % size;
      if (done[rank] || !executions[rank].advance()) continue;
      done[rank] = true;
      --left;
    }
    if (!moved) {
      for (std::size_t rank = 0; rank < size; ++rank) {
        if (done[rank] || !executions[rank].advance()) continue;
        done[rank] = true;
        --left;
      }
    }
    const bool had_moved = moved;
    moved = network.move(job.piece);
    if (!moved && !had_moved && left == before) return false;
  }
  return true;
}

}  // namespace tutti::engine::test
