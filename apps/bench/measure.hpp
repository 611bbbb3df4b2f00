#pragma once

#include <memory>
#include <vector>

#include "../options.hpp"
#include "../workload.hpp"
#include "device_calls.hpp"
#include "peers.hpp"
#include "side_result.hpp"

namespace tutti::app::bench {

/// Interleaves all sides on one problem: in each round every side makes one call, in changing
/// order, each after the same barrier of ours.
class Measurement {
 public:
  using Sides = std::vector<std::unique_ptr<Peer>>;

  /// `device`: set where the buffers are in device memory.
  Measurement(Job& job, const BenchOptions& options, const Sides& sides, const DeviceCalls* device);
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement();

  /// One result a side. Collective.
  [[nodiscard]] std::vector<SideResult> run(Workload& workload);

 private:
  struct Side;

  void prepare(Workload& workload);
  void check(Side& side, Workload& workload);
  void record_graph(Side& side);
  [[nodiscard]] double timed(const Side& side, std::size_t calls);
  void run_rounds(std::size_t rounds, bool keep);
  [[nodiscard]] std::size_t choose_rounds();
  void run_back_to_back(std::size_t calls);
  void agree();
  void wait() const;

  Job& job_;
  const BenchOptions& options_;
  const DeviceCalls* device_;
  std::vector<Side> sides_;
};

}  // namespace tutti::app::bench
