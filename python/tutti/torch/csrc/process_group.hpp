#pragma once

#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compatibility.hpp"
#include "device_path.hpp"
#include "device_work.hpp"
#include "tensors.hpp"
#include "work.hpp"

namespace tutti::torch_backend {

class OpenGroups;

/// The backend "tutti" of torch.distributed: collectives and messages on CPU and CUDA tensors.
///
/// Calls of one group are started by one thread at a time. On CPU tensors, a call that is not
/// asynchronous blocks in tutti itself; for others, the thread that waits advances the call. Calls
/// on CUDA tensors are queued on a stream. Errors of arguments are ValueError and RuntimeError; all
/// else is DistBackendError with tutti's sentence.
class ProcessGroupTutti final : public BackendInterface {
 public:
  struct Settings {
    Milliseconds timeout;  ///< of set-up and of each call without its own
    std::string name;
    std::vector<int> global_ranks;  ///< empty: those of the group
    /// The group has no communicator before reconfigure().
    bool enable_reconfigure = false;
  };

  /// Collective over the group, unless it waits for reconfigure(). Throws DistBackendError,
  /// ValueError.
  ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                    Settings settings);
  /// As shutdown().
  ~ProcessGroupTutti() override;

  const std::string getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  /// The same, for Python.
  c10::intrusive_ptr<CopyableOptions> options() { return options_; }
  bool supportsSplitting() const override { return TUTTI_TORCH_IS_AT_LEAST(2, 9); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  ErrorType getError() override;
  /// Global ranks that the latest error names.
  std::vector<int> failed_ranks() { return failures_->ranks(); }
  /// Batches of messages are issued as one call, where there may be CUDA tensors.
  bool supportsCoalescing() const override { return device_count() > 0; }
  /// Collective. For `device_id` of init_process_group(): makes now what the first call on CUDA
  /// tensors would make.
  void eagerConnectSingleDevice(at::Device device) override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer all_gather_single(at::Tensor& output, at::Tensor& input,
                                const c10d::AllgatherOptions& options) override;
  WorkPointer all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer all_to_all_single(at::Tensor& output, at::Tensor& input,
                                std::vector<std::int64_t>& output_splits,
                                std::vector<std::int64_t>& input_splits,
                                const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;

  void startCoalescing() override;
  WorkPointer endCoalescing() override;
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  void abort() override;
  void shutdown() override;

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override {
    return true;
  }
  /// The same for the life of the group, and different from those of all other ranks.
  c10d::ReconfigureHandle get_reconfigure_handle() const override {
    return handle_;
  }
  /// Collective over the ranks whose handles `options` has; no other rank takes part. Ends the
  /// communicators that the group has, and makes one of these ranks. Blocks; the Work is complete.
  /// After an error the group has no communicator, and may be reconfigured with another uuid.
  WorkPointer reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

 private:
  /// One call of torch's interface, before it is issued.
  struct Plan {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr;
    Tensors inputs;
    Milliseconds timeout = c10d::kUnsetTimeout;
    bool is_async = true;
    std::optional<c10::Device> device;  ///< of a call without tensors
    std::vector<Request> requests;
    Tensors outputs;
    Tensors kept;
    std::vector<std::function<void()>> last_steps;
    /// v-forms: what the requests' counts point to.
    std::vector<std::shared_ptr<std::vector<std::size_t>>> counts;

    std::span<const std::size_t> keep(std::vector<std::size_t> values);
    at::Tensor keep(at::Tensor tensor);
  };
  /// Of a call with `options`. Its requests are to be added.
  template <class Options>
  static Plan plan_of(c10d::OpType type, const char* title, Tensors inputs, const Options& options,
                      Tensors outputs = {}) {
    return {.type = type,
            .title = title,
            .inputs = std::move(inputs),
            .timeout = options.timeout,
            .is_async = tutti::torch_backend::is_async(options),
            .outputs = std::move(outputs)};
  }
  WorkPointer issue(Plan plan);
  /// Throws DistBackendError before the first reconfigure(), and after one that has failed.
  const std::shared_ptr<Channel>& channel() const;
  /// Makes the communicator of `members`, which becomes that of the group.
  void join(Membership members, Milliseconds timeout);
  static std::optional<c10::Device> device_of(const Plan& plan);
  std::shared_ptr<DeviceChannel> channel_of(Plan& plan, c10::Device device, Milliseconds timeout);
  WorkPointer issue_on_device(Plan plan, c10::Device device);
  static void queue(DeviceCall& call, const std::vector<Request>& requests);
  WorkPointer end_coalescing_on_device();

  void add_all_reduce(Plan& plan, const char* call, const at::Tensor& tensor,
                      const c10d::ReduceOp& op) const;
  void add_all_gather(Plan& plan, const char* call, Tensors& outputs,
                      const at::Tensor& input) const;
  void add_all_gather(Plan& plan, const char* call, const at::Tensor& output,
                      const at::Tensor& input) const;
  void add_reduce_scatter(Plan& plan, const char* call, const at::Tensor& output,
                          const at::Tensor& input, const std::vector<std::size_t>& counts,
                          const c10d::ReduceOp& op) const;
  void add_all_to_all(Plan& plan, const char* call, const at::Tensor& output,
                      const at::Tensor& input, std::vector<std::size_t> receive_counts,
                      std::vector<std::size_t> send_counts) const;
  /// Blocks, also where `options` ask for an asynchronous call. The Work is complete.
  WorkPointer allreduce_sparse(at::Tensor tensor, const c10d::AllreduceOptions& options);
  void add_sparse(at::Tensor tensor, Milliseconds timeout) const;
  /// The rows of all ranks below each other. Blocks.
  at::Tensor gathered(const at::Tensor& rows, const std::vector<std::size_t>& row_counts,
                      Milliseconds timeout) const;
  void require_root(const char* call, std::int64_t root) const;
  void require_list(const char* call, const char* what, const Tensors& tensors) const;
  WorkPointer message(Operation operation, const char* call, const Tensors& tensors, int peer,
                      int tag);
  void close();
  /// Forgets a batch that has not ended. Its calls that have started go on, others fail.
  void drop_batch();

  c10::intrusive_ptr<c10d::Store> store_;
  Settings settings_;
  Membership members_;
  pid_t owner_ = ::getpid();
  c10::intrusive_ptr<CopyableOptions> options_;
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<Completer> completer_;
  std::unique_ptr<DevicePath> device_path_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> monitored_barriers_ = 0;
  // Between startCoalescing() and endCoalescing().
  bool is_coalescing_ = false;
  std::shared_ptr<Call> coalesced_;
  std::shared_ptr<DeviceCall> coalesced_on_device_;
  std::vector<Request> batch_;  ///< messages on CUDA tensors

  std::string handle_;
  std::set<std::int64_t> uuids_;  ///< of all calls of reconfigure()

  std::map<std::vector<int>, int> splits_;  ///< their number so far, by the ranks
  c10::weak_intrusive_ptr<c10d::Backend> latest_split_{c10::intrusive_ptr<c10d::Backend>()};
  c10::weak_intrusive_ptr<c10d::Store> latest_split_store_{c10::intrusive_ptr<c10d::Store>()};
  std::vector<int> latest_split_ranks_;
  friend OpenGroups;
  std::weak_ptr<OpenGroups> open_groups_;  ///< where the groups that are split off are added
};

/// The process groups that exist, those that were split off, too. torch keeps them, and in some
/// versions not their Python objects.
class OpenGroups : public std::enable_shared_from_this<OpenGroups> {
 public:
  void add(const c10::intrusive_ptr<ProcessGroupTutti>& group);
  void shutdown();

 private:
  using Group = c10::weak_intrusive_ptr<ProcessGroupTutti>;
  std::mutex mutex_;
  std::vector<Group> groups_;
};

}  // namespace tutti::torch_backend
