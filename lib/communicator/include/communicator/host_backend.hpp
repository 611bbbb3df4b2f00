#pragma once

#include <memory>
#include <string>
#include <vector>

#include "algorithm/cost_model.hpp"
#include "algorithm/schedule_cache.hpp"
#include "communicator/backend.hpp"
#include "communicator/message_numbers.hpp"
#include "communicator/shared_path.hpp"
#include "control/call_histories.hpp"
#include "control/failure_detector.hpp"
#include "engine/progress_engine.hpp"

namespace tutti {

/// Moves buffers in host memory: picks a schedule, and has the job's progress_engine run it over
/// the links.
class HostBackend final : public Backend {
 public:
  struct Settings {
    std::size_t chunk_bytes = 0;  ///< 0: as chosen
    algorithm::CostModel costs;
    /// Results do not depend on chunking or on how buffers are cut into calls.
    bool deterministic = false;
  };

  /// For one communicator, whose calls are told apart by the group's id.
  /// `shared` is null unless all its ranks share memory. `channel` is null unless its ranks on this
  /// host do, and it has ranks on other hosts.
  HostBackend(control::FailureDetector& detector, control::CallHistories& histories,
              engine::ProgressEngine& progress_engine, control::Group group, Settings settings,
              std::unique_ptr<SharedPath> shared = nullptr,
              std::unique_ptr<transport::CollectiveChannel> channel = nullptr);
  /// Waits up to a second for calls that were started; past it the job's communication is over.
  ~HostBackend() override;

  [[nodiscard]] const char* name() const override { return "host"; }
  void run(const CheckedCollective& call, const CallSettings& settings) override;
  void run(const Message& message, const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const CheckedCollective& call,
                                 const CallSettings& settings) override;
  std::unique_ptr<Pending> start(const Message& message, const CallSettings& settings) override;
  void finish_started() override;
  /// Calls on host memory are done when they return.
  void synchronize(const CallSettings&) override {}
  [[nodiscard]] const std::string& latest_algorithm() const override { return latest_algorithm_; }

  /// Of the latest blocking receive from any rank: the sender's rank.
  [[nodiscard]] int latest_source() const { return latest_source_; }

  [[nodiscard]] const control::Group& group() const { return history_->group(); }
  [[nodiscard]] control::CallHistory& history() const { return *history_; }

 private:
  [[nodiscard]] algorithm::ScheduleArguments schedule_arguments(
      const CheckedCollective& call) const;
  [[nodiscard]] std::string_view named_algorithm(const CheckedCollective& call,
                                                 const CallSettings& settings) const;
  [[nodiscard]] algorithm::Schedule make_schedule(const CheckedCollective& call,
                                                  std::string_view algorithm) const;
  [[nodiscard]] std::shared_ptr<const algorithm::Schedule> schedule_of(
      const CheckedCollective& call, const CallSettings& settings);
  [[nodiscard]] const CheckedCollective& multiplied(const CheckedCollective& call,
                                                    const CallSettings& settings,
                                                    engine::Task& task,
                                                    std::optional<CheckedCollective>& rest) const;
  void run_once(const CheckedCollective& call, const CallSettings& settings);
  void run_scheduled(const CheckedCollective& call, const CallSettings& settings);
  void begin(engine::Task& task, const control::PastCall& call, const CallSettings& settings) const;
  void prepare(engine::Task& task, const CheckedCollective& call, const CallSettings& settings);
  [[nodiscard]] engine::Messages messages_of(const Message& message, const CallSettings& settings);
  void require_all_received(const CallSettings& settings);
  [[nodiscard]] bool in_rank_order(const CheckedCollective& call) const;
  [[nodiscard]] bool goes_shared(const CheckedCollective& call, const CallSettings& settings) const;
  struct BegunShared {
    control::PastCall past;
    engine::SharedCall call;
  };
  BegunShared begin_shared(const CheckedCollective& call);
  void end_failed(const control::PastCall& call, const std::exception& error);
  void run_shared(const CheckedCollective& call, const CallSettings& settings);
  void require_no_failure(const CallSignature& call) const;
  [[nodiscard]] transport::StreamKey message_key(std::uint32_t tag, std::uint64_t sequence) const;
  std::unique_ptr<Pending> start(const std::shared_ptr<engine::Task>& task);

  control::FailureDetector& detector_;
  control::CallHistories& histories_;
  engine::ProgressEngine& progress_;
  Settings settings_;
  std::shared_ptr<control::CallHistory> history_;
  engine::Task blocking_;  ///< of calls that block, one at a time: a repeated one allocates nothing
  std::unique_ptr<SharedPath> shared_;
  std::vector<int> host_of_rank_;
  std::unique_ptr<transport::CollectiveChannel> channel_;
  std::vector<int> member_of_rank_;  ///< in channel_; -1 on another host
  MessageNumbers numbers_;
  algorithm::ScheduleCache schedules_;
  std::string latest_algorithm_;
  int latest_source_ = -1;
};

}  // namespace tutti
