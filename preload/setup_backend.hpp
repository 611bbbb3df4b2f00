#pragma once

#include "communicator/backend.hpp"
#include "host_segment.hpp"

namespace tutti::preload {

/// The few collective calls on host memory that set up the direct path (device::SetupExchange),
/// over a host segment. All data of a rank fit into one of its blocks.
class SetupBackend final : public Backend {
 public:
  SetupBackend(HostSegment& segment, int rank) : segment_(segment), rank_(rank) {}

  [[nodiscard]] const char* name() const override { return "host segment"; }
  /// broadcast, all_gather, and all_reduce of i32 by max. Throws what HostSegment::all_gather does.
  void run(const CheckedCollective& call, const CallSettings& settings) override;
  void run(const Message& message, const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const CheckedCollective& call,
                                 const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const Message& message, const CallSettings& settings) override;
  void synchronize(const CallSettings& settings) override;
  [[nodiscard]] const std::string& latest_algorithm() const override { return algorithm_; }

 private:
  HostSegment& segment_;
  int rank_;
  std::string algorithm_ = "host segment";
};

}  // namespace tutti::preload
