// Gloo over its TCP transport, called in the usual way: with a new options object per call.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/scatter.h>

#include <climits>
#include <cstring>
#include <functional>

#include "../catalogue.hpp"
#include "gloo_context.hpp"
#include "gloo_reductions.hpp"
#include "implementations.hpp"

namespace tutti::app::bench {
namespace {

class GlooImplementation final : public Implementation {
 public:
  explicit GlooImplementation(std::shared_ptr<gloo::Context> context)
      : Implementation("gloo", gloo_version()), context_(std::move(context)) {}

  std::string prepare(const Task& task) override {
    call_ = nullptr;
    result_at_front_ = false;
    task_ = task;
    const auto& spec = task.spec;
    if (spec.count == 0 && spec.operation != Operation::barrier) {
      return "Gloo does not accept empty buffers";
    }
    count_ = spec.count;
    block_bytes_ = count_ * size_of(spec.type);
    ranks_ = static_cast<std::size_t>(spec.ranks);
    if (!shape_of(spec).reduces) return prepare_move();
    return with_type(spec.type, [&](auto element) {
      using T = decltype(element);
      if (reduction<T>(spec.op) == nullptr) {
        return fmt::format("Gloo has no {}", tutti::name(spec.op));
      }
      return prepare_reduction<T>();
    });
  }

  void run() override {
    try {
      call_();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(ErrorCode::system, fmt::format("Gloo failed: {}", error.what()));
    }
  }

  void place_result() override {
    if (!result_at_front_) return;
    const auto size = size_of(task_.spec.type);
    std::memmove(recv() + task_.layout.result_at * size, recv(), block_bytes_);
  }

  /// Gloo's in-place reduce uses the buffers of all ranks as scratch.
  bool keeps_input() const override { return task_.spec.operation != Operation::reduce; }

 private:
  [[nodiscard]] std::uint8_t* send() const { return static_cast<std::uint8_t*>(task_.send); }
  [[nodiscard]] std::uint8_t* recv() const { return static_cast<std::uint8_t*>(task_.recv); }
  /// This rank's contribution: in the send buffer, or in-place in the receive buffer.
  [[nodiscard]] std::uint8_t* own_block() const {
    if (!task_.layout.shared) return send();
    return recv() + task_.layout.input_at * size_of(task_.spec.type);
  }
  [[nodiscard]] bool is_root() const { return task_.spec.rank == task_.spec.root; }

  std::string prepare_move() {
    switch (task_.spec.operation) {
      case Operation::barrier:
        call_ = [this] {
          gloo::BarrierOptions options(context_);
          gloo::barrier(options);
        };
        return {};
      case Operation::broadcast:
        call_ = [this] { broadcast(); };
        return {};
      case Operation::fan_out:
        call_ = [this] { fan_out(); };
        return {};
      case Operation::send_recv:
        call_ = [this] { send_recv(); };
        return {};
      case Operation::all_gather:
        call_ = [this] { all_gather(); };
        return {};
      case Operation::gather:
        call_ = [this] { gather(); };
        return {};
      case Operation::scatter:
        call_ = [this] { scatter(); };
        return {};
      case Operation::all_to_all:
        if (task_.layout.shared) return "Gloo has no all-to-all in place";
        call_ = [this] { all_to_all(); };
        return {};
      default:
        return fmt::format("Gloo has no {}", shown_name(task_.spec.operation));
    }
  }

  template <class T>
  std::string prepare_reduction() {
    switch (task_.spec.operation) {
      case Operation::all_reduce:
        call_ = [this] { all_reduce<T>(); };
        return {};
      case Operation::reduce:
        // Gloo needs an output buffer on every rank, not only on the root.
        if (!task_.layout.shared && !is_root()) scratch_.resize(block_bytes_);
        call_ = [this] { reduce<T>(); };
        return {};
      case Operation::reduce_scatter:
        return prepare_reduce_scatter<T>();
      default:
        return fmt::format("Gloo has no {}", shown_name(task_.spec.operation));
    }
  }

  void broadcast() {
    gloo::BroadcastOptions options(context_);
    options.setOutput(recv(), block_bytes_);
    options.setRoot(task_.spec.root);
    gloo::broadcast(options);
  }

  void fan_out() {
    const auto buffer = context_->createUnboundBuffer(recv(), block_bytes_);
    if (!is_root()) {
      buffer->recv(task_.spec.root, slot);
      buffer->waitRecv();
      return;
    }
    for (int rank = 0; rank < task_.spec.ranks; ++rank) {
      if (rank != task_.spec.root) buffer->send(rank, slot);
    }
    for (int i = 1; i < task_.spec.ranks; ++i) buffer->waitSend();
  }

  void send_recv() {
    const auto from = context_->createUnboundBuffer(send(), block_bytes_);
    const auto to = context_->createUnboundBuffer(recv(), block_bytes_);
    to->recv(previous_of(task_.spec), slot);
    from->send(next_of(task_.spec), slot);
    to->waitRecv();
    from->waitSend();
  }

  void all_gather() {
    gloo::AllgatherOptions options(context_);
    if (!task_.layout.shared) options.setInput(send(), block_bytes_);
    options.setOutput(recv(), block_bytes_ * ranks_);
    gloo::allgather(options);
  }

  void gather() {
    gloo::GatherOptions options(context_);
    options.setInput(own_block(), block_bytes_);
    if (is_root()) options.setOutput(recv(), block_bytes_ * ranks_);
    options.setRoot(task_.spec.root);
    gloo::gather(options);
  }

  void scatter() {
    gloo::ScatterOptions options(context_);
    if (is_root()) {
      auto* const blocks = task_.layout.shared ? recv() : send();
      std::vector<std::uint8_t*> inputs;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        inputs.push_back(blocks + rank * block_bytes_);
      }
      options.setInputs(std::move(inputs), block_bytes_);
    }
    options.setOutput(recv() + task_.layout.result_at * size_of(task_.spec.type), block_bytes_);
    options.setRoot(task_.spec.root);
    gloo::scatter(options);
  }

  void all_to_all() {
    gloo::AlltoallOptions options(context_);
    options.setInput(send(), block_bytes_ * ranks_);
    options.setOutput(recv(), block_bytes_ * ranks_);
    gloo::alltoall(options);
  }

  template <class T>
  void all_reduce() {
    gloo::AllreduceOptions options(context_);
    if (!task_.layout.shared) options.setInput(reinterpret_cast<T*>(send()), count_);
    options.setOutput(reinterpret_cast<T*>(recv()), count_);
    options.setReduceFunction(reduction<T>(task_.spec.op));
    gloo::allreduce(options);
  }

  template <class T>
  void reduce() {
    gloo::ReduceOptions options(context_);
    auto* output = recv();
    if (!task_.layout.shared) {
      options.setInput(reinterpret_cast<T*>(send()), count_);
      if (!is_root()) output = scratch_.data();
    }
    options.setOutput(reinterpret_cast<T*>(output), count_);
    options.setReduceFunction(reduction<T>(task_.spec.op));
    options.setRoot(task_.spec.root);
    gloo::reduce(options);
  }

  /// Gloo's reduce-scatter is in-place only, with the result at the front. Out-of-place, the copies
  /// count as part of its time.
  template <class T>
  std::string prepare_reduce_scatter() {
    const auto elements = count_ * ranks_;
    if (elements * sizeof(T) > static_cast<std::size_t>(INT_MAX)) {
      return fmt::format("Gloo's reduce-scatter counts bytes as int: {} are too many",
                         elements * sizeof(T));
    }
    result_at_front_ = task_.layout.shared;
    if (!task_.layout.shared) scratch_.resize(elements * sizeof(T));
    auto* const data = task_.layout.shared ? recv() : scratch_.data();
    // The constructor connects its buffers to those of the peers, so all ranks construct it here.
    auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<T>>(
        context_, std::vector<T*>{reinterpret_cast<T*>(data)}, static_cast<int>(elements),
        std::vector<int>(ranks_, static_cast<int>(count_)), reduction_object<T>(task_.spec.op));
    call_ = [this, algorithm] {
      if (!task_.layout.shared) std::memcpy(scratch_.data(), send(), scratch_.size());
      algorithm->run();
      if (!task_.layout.shared) std::memcpy(recv(), scratch_.data(), block_bytes_);
    };
    return {};
  }

  /// Tag for unbound buffers. Gloo's own operations use small tags.
  static constexpr std::uint64_t slot = 0x7475747469ULL;

  std::shared_ptr<gloo::Context> context_;
  Task task_;
  std::size_t count_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t ranks_ = 1;
  bool result_at_front_ = false;
  std::vector<std::uint8_t> scratch_;
  std::function<void()> call_;
};

}  // namespace

std::unique_ptr<Implementation> make_gloo_implementation(JobSession& job,
                                                         std::chrono::nanoseconds timeout) {
  auto& communicator = job.communicator();
  if (communicator.size() < 2) {
    throw Error(ErrorCode::usage,
                "--vs gloo needs two ranks or more: start it by mpirun -np N tutti bench …");
  }
  return std::make_unique<GlooImplementation>(connect_gloo(communicator, timeout));
}

}  // namespace tutti::app::bench
