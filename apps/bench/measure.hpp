#pragma once

#include <memory>
#include <vector>

#include "../options.hpp"
#include "../workload.hpp"
#include "device_calls.hpp"
#include "peer_result.hpp"
#include "peers.hpp"

namespace tutti::app::bench {

/// Interleaves the calls of all peers: in each round every peer makes one call after the same
/// barrier of tutti. The order alternates.
class Measurement {
 public:
  using Peers = std::vector<std::unique_ptr<Peer>>;

  /// `device` is set if the buffers are in device memory.
  Measurement(JobSession& job, const BenchOptions& options, const Peers& peers,
              const DeviceCalls* device);
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement();

  /// One result per peer. Collective.
  [[nodiscard]] std::vector<PeerResult> run(Workload& workload);

 private:
  struct PeerRun;

  void prepare(Workload& workload);
  void check(PeerRun& run, Workload& workload);
  void record_graph(PeerRun& run);
  [[nodiscard]] double timed(const PeerRun& run, std::size_t calls);
  void run_rounds(std::size_t rounds, bool keep);
  [[nodiscard]] std::size_t choose_rounds();
  void run_throughput(std::size_t calls);
  void reduce_over_ranks();
  void wait() const;

  JobSession& job_;
  const BenchOptions& options_;
  const DeviceCalls* device_;
  std::vector<PeerRun> runs_;
};

}  // namespace tutti::app::bench
