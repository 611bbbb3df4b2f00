#pragma once

#include <memory>
#include <vector>

#include "../options.hpp"
#include "../workload.hpp"
#include "device_calls.hpp"
#include "implementation_result.hpp"
#include "implementations.hpp"

namespace tutti::app::bench {

/// Interleaves the calls of all implementations: in each round every implementation makes one call
/// after the same barrier of tutti. The order alternates.
class Measurement {
 public:
  using Implementations = std::vector<std::unique_ptr<Implementation>>;

  /// `device` is set if the buffers are in device memory.
  Measurement(JobSession& job, const BenchOptions& options, const Implementations& implementations,
              const DeviceCalls* device);
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement();

  /// One result per implementation. Collective.
  [[nodiscard]] std::vector<ImplementationResult> run(Workload& workload);

 private:
  struct Run;

  void prepare(Workload& workload);
  void check(Run& run, Workload& workload);
  void record_graph(Run& run);
  [[nodiscard]] double timed(const Run& run, std::size_t calls);
  void run_rounds(std::size_t rounds, bool keep);
  [[nodiscard]] std::size_t choose_rounds();
  void run_throughput(std::size_t calls);
  void reduce_over_ranks();
  void wait() const;

  JobSession& job_;
  const BenchOptions& options_;
  const DeviceCalls* device_;
  std::vector<Run> runs_;
};

}  // namespace tutti::app::bench
