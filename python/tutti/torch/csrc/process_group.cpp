#include "process_group.hpp"

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "store_bootstrap.hpp"
#include "tutti/version.hpp"

namespace tutti::torch_backend {
namespace {

using c10d::OpType;

std::shared_ptr<Channel> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                 const ProcessGroupTutti::Settings& settings) {
  StoreBootstrap bootstrap(store, rank, size);
  try {
    auto communicator = Communicator::create(
        bootstrap, {.timeout = settings.timeout, .backend = BackendChoice::host});
    return std::make_shared<Channel>(std::move(communicator), settings.name, settings.global_ranks);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::usage) C10_THROW_ERROR(ValueError, error.sentence());
    C10_THROW_ERROR(DistBackendError, error.sentence() + " [tutti " + tutti::name(error.code()) +
                                          ", set-up of process group " + settings.name + "]");
  }
}

std::vector<std::size_t> counts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> result;
  for (const auto& tensor : tensors) result.push_back(static_cast<std::size_t>(tensor.numel()));
  return result;
}

bool all_equal(const std::vector<std::size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

std::int64_t total(const std::vector<std::size_t>& counts) {
  return static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
}

/// One contiguous tensor of the elements of all.
at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const auto& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return at::cat(rows);
}

/// The reverse of flattened().
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::int64_t begin = 0;
  for (auto tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

/// The tensor that `tensors` are adjacent parts of, so that nothing need be copied; else undefined.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return {};
  const auto& first = tensors.front();
  std::int64_t elements = 0;
  for (const auto& tensor : tensors) {
    const bool follows = tensor.is_contiguous() && tensor.storage().is_alias_of(first.storage()) &&
                         tensor.storage_offset() == first.storage_offset() + elements;
    if (!follows) return {};
    elements += tensor.numel();
  }
  at::NoGradGuard no_grad;
  return first.detach().as_strided({elements}, {1}, first.storage_offset());
}

}  // namespace

std::span<const std::size_t> ProcessGroupTutti::Plan::keep(std::vector<std::size_t> values) {
  counts.push_back(std::make_shared<std::vector<std::size_t>>(std::move(values)));
  return *counts.back();
}

at::Tensor ProcessGroupTutti::Plan::keep(at::Tensor tensor) {
  kept.push_back(tensor);
  return tensor;
}

ProcessGroupTutti::ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                     int size, Settings settings)
    : Backend(rank, size),
      store_(store->clone()),
      settings_(std::move(settings)),
      options_(c10::make_intrusive<Options>("tutti", settings_.timeout)),
      channel_(connect(store, rank, size, settings_)),
      completer_(std::make_shared<Completer>()) {
  init();
  options_->group_name = settings_.name;
  for (const int global : settings_.global_ranks) {
    options_->global_ranks_in_group.push_back(static_cast<std::uint64_t>(global));
  }
}

ProcessGroupTutti::~ProcessGroupTutti() {
  try {
    // Callbacks of futures may need the GIL while this waits for them.
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      const pybind11::gil_scoped_release released;
      close();
    } else {
      close();
    }
  } catch (const std::exception& error) {
    TORCH_WARN("tutti: closing process group ", settings_.name, " failed: ", error.what());
  }
}

void ProcessGroupTutti::close() {
  completer_->stop();
  channel_->close();
  completer_->complete_rest();
}

void ProcessGroupTutti::shutdown() {
  close();
}

void ProcessGroupTutti::abort() {
  channel_->abort("abort() of process group " + settings_.name + " was called");
  close();
}

void ProcessGroupTutti::setTimeout(std::chrono::milliseconds timeout) {
  settings_.timeout = timeout;
  options_->timeout = timeout;
}

c10d::ErrorType ProcessGroupTutti::getError() {
  return channel_->has_failed() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::issue(Plan plan) {
  const bool is_message = c10d::isP2POp(plan.type);
  const auto sequence = is_message ? sequence_.load() : ++sequence_;
  const auto timeout = plan.timeout == c10d::kUnsetTimeout ? settings_.timeout : plan.timeout;
  for (auto& request : plan.requests) request.options.timeout = timeout;
  const auto call = coalesced_ ? coalesced_ : std::make_shared<Call>(channel_);
  auto work = c10::make_intrusive<TuttiWork>(getRank(), plan.type, plan.title, plan.inputs,
                                             sequence, plan.source, call, completer_);
  const auto append = [](auto& list, auto& more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  };
  append(call->outputs, plan.outputs);
  append(call->kept, plan.kept);
  append(call->last_steps, plan.last_steps);
  try {
    if (plan.is_async || coalesced_) {
      for (const auto& request : plan.requests) call->works.push_back(channel_->start(request));
      return work;
    }
    for (const auto& request : plan.requests) channel_->run(request);
  } catch (...) {
    if (!coalesced_) call->complete(std::current_exception());
    throw;
  }
  call->complete();
  work->end_record();
  if (const auto error = call->error()) std::rethrow_exception(error);
  return work;
}

void ProcessGroupTutti::require_root(const char* call, std::int64_t root) const {
  TORCH_CHECK(root >= 0 && root < getSize(), prefix(call), "invalid root rank: ", root,
              ", expected 0 to ", getSize() - 1);
}

void ProcessGroupTutti::require_list(const char* call, const char* what,
                                     const Tensors& tensors) const {
  TORCH_CHECK(tensors.size() == static_cast<std::size_t>(getSize()), prefix(call), "invalid ", what,
              " tensor list at index 0 (expected length ", getSize(), ", got ", tensors.size(),
              ")");
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  const auto& tensor = only("broadcast", tensors);
  require_root("broadcast", options.rootRank);
  require_contiguous("broadcast", tensor, true);
  const Moved moved(tensor);
  return issue({.type = OpType::BROADCAST,
                .title = "tutti:broadcast",
                .inputs = tensors,
                .timeout = options.timeout,
                .is_async = options.asyncOp,
                .requests = {{Collective{.operation = Operation::broadcast,
                                         .type = moved.type,
                                         .root = static_cast<int>(options.rootRank),
                                         .recv = moved.data,
                                         .recv_count = moved.count}}},
                .outputs = tensors,
                .kept = tensors});
}

void ProcessGroupTutti::add_all_reduce(Plan& plan, const char* call, const at::Tensor& given,
                                       const c10d::ReduceOp& op) const {
  require_contiguous(call, given, true);
  const auto tensor =
      given.is_complex() && c10d::isComplexViewAsRealAllowed(op) ? at::view_as_real(given) : given;
  const auto reduction = reduction_of(call, op, tensor.scalar_type());
  auto reduced = plan.keep(tensor);
  if (reduction.through != at::ScalarType::Undefined) {
    reduced = plan.keep(tensor.to(reduction.through));
    plan.last_steps.emplace_back([tensor, reduced] { at::Tensor(tensor).copy_(reduced); });
  }
  if (reduction.factor) {
    at::NoGradGuard no_grad;
    reduced.mul_(*reduction.factor);
  }
  const Moved moved(reduced);
  plan.requests.push_back({Collective{.operation = Operation::all_reduce,
                                      .type = moved.type,
                                      .op = reduction.op,
                                      .recv = moved.data,
                                      .recv_count = moved.count,
                                      .in_place = true}});
  plan.outputs.push_back(given);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  Plan plan{.type = OpType::ALLREDUCE,
            .title = "tutti:all_reduce",
            .inputs = tensors,
            .timeout = options.timeout,
            .is_async = options.asyncOp};
  add_all_reduce(plan, "allreduce", only("allreduce", tensors), options.reduceOp);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), prefix("allreduce_coalesced"), "requires non-empty tensor list");
  Plan plan{.type = OpType::ALLREDUCE_COALESCED,
            .title = "tutti:all_reduce",
            .inputs = tensors,
            .timeout = options.timeout,
            .is_async = options.asyncOp};
  for (const auto& tensor : tensors) {
    add_all_reduce(plan, "allreduce_coalesced", tensor, options.reduceOp);
  }
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::reduce(Tensors& tensors,
                                                         const c10d::ReduceOptions& options) {
  const auto& given = only("reduce", tensors);
  require_root("reduce", options.rootRank);
  require_contiguous("reduce", given, true);
  const auto tensor = given.is_complex() && c10d::isComplexViewAsRealAllowed(options.reduceOp)
                          ? at::view_as_real(given)
                          : given;
  const auto reduction = reduction_of("reduce", options.reduceOp, tensor.scalar_type());
  Plan plan{.type = OpType::REDUCE,
            .title = "tutti:reduce",
            .inputs = tensors,
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = tensors,
            .kept = {tensor}};
  const bool is_root = options.rootRank == getRank();
  // Only the root's tensor may change.
  auto sent = tensor;
  if (reduction.through != at::ScalarType::Undefined) sent = plan.keep(tensor.to(reduction.through));
  if (reduction.factor) sent = plan.keep(at::mul(sent.detach(), *reduction.factor));
  if (is_root && !sent.is_same(tensor)) {
    plan.last_steps.emplace_back([tensor, sent] { at::Tensor(tensor).copy_(sent); });
  }
  const Moved moved(sent);
  Collective request{.operation = Operation::reduce,
                     .type = moved.type,
                     .op = reduction.op,
                     .root = static_cast<int>(options.rootRank)};
  if (is_root) {
    request.recv = moved.data;
    request.recv_count = moved.count;
    request.in_place = true;
  } else {
    request.send = moved.data;
    request.send_count = moved.count;
  }
  plan.requests = {{request}};
  return issue(std::move(plan));
}

void ProcessGroupTutti::add_all_gather(Plan& plan, const char* call, const at::Tensor& output,
                                       const at::Tensor& input) const {
  require_contiguous(call, input);
  require_contiguous(call, output);
  require_type(call, output, input);
  TORCH_CHECK(output.numel() == input.numel() * getSize(), prefix(call),
              "output tensor size must be equal to world_size times input tensor size: ",
              output.numel(), " elements, expected ", input.numel() * getSize());
  const Moved from(plan.keep(input));
  const Moved to(plan.keep(output));
  Collective request{.operation = Operation::all_gather,
                     .type = to.type,
                     .send = from.data,
                     .send_count = from.count,
                     .recv = to.data,
                     .recv_count = to.count};
  plan.requests.push_back({request});
}

void ProcessGroupTutti::add_all_gather(Plan& plan, const char* call, Tensors& outputs,
                                       const at::Tensor& input) const {
  require_list(call, "output", outputs);
  require_dense(call, input);
  for (const auto& output : outputs) {
    require_dense(call, output);
    require_type(call, output, input);
  }
  plan.outputs.insert(plan.outputs.end(), outputs.begin(), outputs.end());
  const auto counts = counts_of(outputs);
  const auto mine = static_cast<std::size_t>(getRank());
  TORCH_CHECK(counts[mine] == static_cast<std::size_t>(input.numel()), prefix(call),
              "invalid tensor size at index ", mine, " of the output list (expected ",
              input.numel(), " elements as in the input, got ", counts[mine], ")");
  auto flat = joined(outputs);
  if (!flat.defined()) {
    flat = at::empty({total(counts)}, input.options().requires_grad(false));
    plan.last_steps.emplace_back([flat, outputs] {
      at::NoGradGuard no_grad;
      unflatten(flat, outputs);
    });
  }
  const auto contiguous = plan.keep(input.detach().contiguous());
  if (all_equal(counts)) return add_all_gather(plan, call, flat, contiguous);
  const Moved from(contiguous);
  const Moved to(plan.keep(flat));
  auto blocks = counts;
  for (auto& count : blocks) count *= from.unit;
  plan.requests.push_back({Collective{.operation = Operation::all_gather_v,
                                      .type = to.type,
                                      .send = from.data,
                                      .send_count = from.count,
                                      .recv = to.data,
                                      .recv_count = to.count,
                                      .counts = plan.keep(std::move(blocks))}});
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const auto& input = only("allgather", inputs);
  TORCH_CHECK(outputs.size() == 1, prefix("allgather"), "requires a single output tensor list");
  Plan plan{.type = OpType::ALLGATHER,
            .title = "tutti:all_gather",
            .inputs = inputs,
            .timeout = options.timeout,
            .is_async = options.asyncOp};
  add_all_gather(plan, "allgather", outputs.front(), input);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  require_list("allgather_coalesced", "output", outputs.empty() ? Tensors() : Tensors(outputs.size()));
  Plan plan{.type = OpType::ALLGATHER_COALESCED,
            .title = "tutti:all_gather",
            .inputs = inputs,
            .timeout = options.timeout,
            .is_async = options.asyncOp};
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    Tensors of_ranks;
    for (const auto& list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), prefix("allgather_coalesced"),
                  "invalid output size: (expected length ", inputs.size(), ", got ", list.size(),
                  ")");
      of_ranks.push_back(list[index]);
    }
    add_all_gather(plan, "allgather_coalesced", of_ranks, inputs[index]);
  }
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::all_gather_single(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Plan plan{.type = OpType::_ALLGATHER_BASE,
            .title = "tutti:_all_gather_base",
            .inputs = {input},
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = {output}};
  add_all_gather(plan, "all_gather_single", output, input);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::all_gather_single_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), prefix("all_gather_single_coalesced"),
              "requires as many output as input tensors");
  Plan plan{.type = OpType::ALLGATHER_INTO_TENSOR_COALESCED,
            .title = "tutti:_all_gather_base",
            .inputs = inputs,
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = outputs};
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    add_all_gather(plan, "all_gather_single_coalesced", outputs[index], inputs[index]);
  }
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::gather(std::vector<Tensors>& outputs,
                                                         Tensors& inputs,
                                                         const c10d::GatherOptions& options) {
  require_root("gather", options.rootRank);
  const auto& input = only("gather", inputs);
  require_dense("gather", input);
  Plan plan{.type = OpType::GATHER,
            .title = "tutti:gather",
            .inputs = inputs,
            .timeout = options.timeout,
            .is_async = options.asyncOp};
  const auto contiguous = plan.keep(input.detach().contiguous());
  const Moved from(contiguous);
  Collective request{.operation = Operation::gather,
                     .type = from.type,
                     .root = static_cast<int>(options.rootRank),
                     .send = from.data,
                     .send_count = from.count};
  if (options.rootRank == getRank()) {
    TORCH_CHECK(outputs.size() == 1, prefix("gather"), "requires a single-element output list containing a list of tensors");
    auto& list = outputs.front();
    require_list("gather", "output", list);
    for (const auto& output : list) {
      require_dense("gather", output);
      require_type("gather", output, input);
      TORCH_CHECK(output.numel() == input.numel(), prefix("gather"), "invalid tensor size: ",
                  output.numel(), " elements, expected ", input.numel());
    }
    auto flat = joined(list);
    if (!flat.defined()) {
      flat = at::empty({input.numel() * getSize()}, contiguous.options());
      plan.last_steps.emplace_back([flat, list] {
        at::NoGradGuard no_grad;
        unflatten(flat, list);
      });
    }
    const Moved to(plan.keep(flat));
    request.recv = to.data;
    request.recv_count = to.count;
    plan.outputs = list;
  } else {
    TORCH_CHECK(outputs.empty(), prefix("gather"), "requires empty output on non-root");
  }
  plan.requests = {{request}};
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::gather_single(
    at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) {
  require_root("gather_single", options.rootRank);
  require_contiguous("gather_single", input);
  Plan plan{.type = OpType::GATHER,
            .title = "tutti:gather",
            .inputs = {input},
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .kept = {input}};
  const Moved from(input);
  Collective request{.operation = Operation::gather,
                     .type = from.type,
                     .root = static_cast<int>(options.rootRank),
                     .send = from.data,
                     .send_count = from.count};
  if (options.rootRank == getRank()) {
    require_contiguous("gather_single", output);
    require_type("gather_single", output, input);
    TORCH_CHECK(output.numel() == input.numel() * getSize(), prefix("gather_single"),
                "output tensor size must be equal to world_size times input tensor size");
    const Moved to(plan.keep(output));
    request.recv = to.data;
    request.recv_count = to.count;
    plan.outputs = {output};
  }
  plan.requests = {{request}};
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::scatter(Tensors& outputs,
                                                          std::vector<Tensors>& inputs,
                                                          const c10d::ScatterOptions& options) {
  require_root("scatter", options.rootRank);
  const auto& output = only("scatter", outputs);
  require_dense("scatter", output);
  Plan plan{.type = OpType::SCATTER,
            .title = "tutti:scatter",
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = outputs};
  auto received = output.detach();
  if (!received.is_contiguous()) {
    received = at::empty(output.sizes(), output.options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous));
    plan.last_steps.emplace_back([output, received] {
      at::NoGradGuard no_grad;
      at::Tensor(output).copy_(received);
    });
  }
  const Moved to(plan.keep(received));
  Collective request{.operation = Operation::scatter,
                     .type = to.type,
                     .root = static_cast<int>(options.rootRank),
                     .recv = to.data,
                     .recv_count = to.count};
  if (options.rootRank == getRank()) {
    TORCH_CHECK(inputs.size() == 1, prefix("scatter"), "requires a single-element input list containing a list of tensors");
    const auto& list = inputs.front();
    require_list("scatter", "input", list);
    for (const auto& input : list) {
      require_dense("scatter", input);
      require_type("scatter", input, output);
      TORCH_CHECK(input.numel() == output.numel(), prefix("scatter"), "invalid tensor size: ",
                  input.numel(), " elements, expected ", output.numel());
    }
    plan.inputs = list;
    at::NoGradGuard no_grad;
    auto flat = joined(list);
    if (!flat.defined()) flat = flattened(list);
    const Moved from(plan.keep(flat));
    request.send = from.data;
    request.send_count = from.count;
  } else {
    TORCH_CHECK(inputs.empty(), prefix("scatter"), "requires empty input on non-root");
  }
  plan.requests = {{request}};
  return issue(std::move(plan));
}

void ProcessGroupTutti::add_reduce_scatter(Plan& plan, const char* call, const at::Tensor& output,
                                           const at::Tensor& input,
                                           const std::vector<std::size_t>& counts,
                                           const c10d::ReduceOp& op) const {
  at::NoGradGuard no_grad;
  const bool is_complex = input.is_complex() && c10d::isComplexViewAsRealAllowed(op);
  auto from = is_complex ? at::view_as_real(input) : input;
  auto to = is_complex ? at::view_as_real(output) : output;
  const auto reduction = reduction_of(call, op, from.scalar_type());
  if (reduction.through != at::ScalarType::Undefined) from = from.to(reduction.through);
  if (reduction.factor) from = at::mul(from, *reduction.factor);
  if (from.scalar_type() != to.scalar_type()) {
    const auto result = at::empty(to.sizes(), to.options().dtype(reduction.through));
    plan.last_steps.emplace_back([to, result] { at::Tensor(to).copy_(result); });
    to = result;
  }
  const Moved sent(plan.keep(from));
  const Moved received(plan.keep(to));
  Collective request{.operation = Operation::reduce_scatter,
                     .type = sent.type,
                     .op = reduction.op,
                     .send = sent.data,
                     .send_count = sent.count,
                     .recv = received.data,
                     .recv_count = received.count};
  if (!all_equal(counts)) {
    request.operation = Operation::reduce_scatter_v;
    auto blocks = counts;
    for (auto& count : blocks) count *= is_complex ? 2 : 1;
    request.counts = plan.keep(std::move(blocks));
  }
  plan.requests.push_back({request});
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr auto call = "reduce_scatter";
  const auto& output = only(call, outputs);
  require_contiguous(call, output);
  TORCH_CHECK(inputs.size() == 1, prefix(call), "requires a single input tensor list");
  const auto& list = inputs.front();
  require_list(call, "input", list);
  for (const auto& input : list) {
    require_dense(call, input);
    require_type(call, input, output);
  }
  const auto counts = counts_of(list);
  const auto mine = static_cast<std::size_t>(getRank());
  TORCH_CHECK(counts[mine] == static_cast<std::size_t>(output.numel()), prefix(call),
              "invalid tensor size at index ", mine, " of the input list (expected ",
              output.numel(), " elements as in the output, got ", counts[mine], ")");
  Plan plan{.type = OpType::REDUCE_SCATTER,
            .title = "tutti:reduce_scatter",
            .inputs = list,
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = outputs};
  at::NoGradGuard no_grad;
  auto flat = joined(list);
  if (!flat.defined()) flat = flattened(list);
  add_reduce_scatter(plan, call, output, flat, counts, options.reduceOp);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::reduce_scatter_single(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_single_coalesced(outputs, inputs, options);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::reduce_scatter_single_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr auto call = "reduce_scatter_single";
  TORCH_CHECK(outputs.size() == inputs.size(), prefix(call),
              "requires as many output as input tensors");
  Plan plan{.type = outputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE
                                        : OpType::REDUCE_SCATTER_TENSOR_COALESCED,
            .title = "tutti:_reduce_scatter_base",
            .inputs = inputs,
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = outputs};
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const auto& input = inputs[index];
    const auto& output = outputs[index];
    require_contiguous(call, input);
    require_contiguous(call, output);
    require_type(call, output, input);
    TORCH_CHECK(input.numel() == output.numel() * getSize(), prefix(call),
                "input tensor must be the same size as output size times world size: ",
                input.numel(), " elements, expected ", output.numel() * getSize());
    add_reduce_scatter(plan, call, output, input, {}, options.reduceOp);
  }
  return issue(std::move(plan));
}

void ProcessGroupTutti::add_all_to_all(Plan& plan, const char* call, const at::Tensor& output,
                                       const at::Tensor& input,
                                       std::vector<std::size_t> receive_counts,
                                       std::vector<std::size_t> send_counts) const {
  require_type(call, output, input);
  const Moved from(plan.keep(input));
  const Moved to(plan.keep(output));
  Collective request{.operation = Operation::all_to_all,
                     .type = from.type,
                     .send = from.data,
                     .send_count = from.count,
                     .recv = to.data,
                     .recv_count = to.count};
  if (!send_counts.empty() || !receive_counts.empty()) {
    request.operation = Operation::all_to_all_v;
    for (auto* const counts : {&send_counts, &receive_counts}) {
      for (auto& count : *counts) count *= from.unit;
    }
    request.counts = plan.keep(std::move(send_counts));
    request.recv_counts = plan.keep(std::move(receive_counts));
  }
  plan.requests.push_back({request});
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::alltoall(Tensors& outputs, Tensors& inputs,
                                                           const c10d::AllToAllOptions& options) {
  constexpr auto call = "alltoall";
  require_list(call, "output", outputs);
  require_list(call, "input", inputs);
  for (const auto& tensor : outputs) {
    require_dense(call, tensor);
    require_type(call, tensor, inputs.front());
  }
  for (const auto& tensor : inputs) {
    require_dense(call, tensor);
    require_type(call, tensor, inputs.front());
  }
  Plan plan{.type = OpType::ALLTOALL,
            .title = "tutti:all_to_all",
            .inputs = inputs,
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = outputs};
  at::NoGradGuard no_grad;
  auto to = joined(outputs);
  if (!to.defined()) {
    to = at::empty({total(counts_of(outputs))}, outputs.front().options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous));
    plan.last_steps.emplace_back([to, outputs] {
      at::NoGradGuard guard;
      unflatten(to, outputs);
    });
  }
  auto from = joined(inputs);
  if (!from.defined()) from = flattened(inputs);
  // Whether all blocks of all ranks are equal, one rank doesn't know.
  add_all_to_all(plan, call, to, from, counts_of(outputs), counts_of(inputs));
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::all_to_all_single(
    at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
    std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  constexpr auto call = "all_to_all_single";
  require_contiguous(call, output);
  require_contiguous(call, input);
  c10d::checkSplitSizes(output_splits, output, getSize());
  c10d::checkSplitSizes(input_splits, input, getSize());
  Plan plan{.type = OpType::ALLTOALL_BASE,
            .title = "tutti:all_to_all",
            .inputs = {input},
            .timeout = options.timeout,
            .is_async = options.asyncOp,
            .outputs = {output}};
  if (output_splits.empty() && input_splits.empty()) {
    TORCH_CHECK(output.numel() == input.numel(), prefix(call),
                "Tensors are not equal in size: ", output.numel(), " and ", input.numel(),
                " elements");
    add_all_to_all(plan, call, output, input, {}, {});
    return issue(std::move(plan));
  }
  const auto elements = [&](const std::vector<std::int64_t>& splits, const at::Tensor& tensor) {
    const auto rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    const auto row = rows == 0 ? 0 : tensor.numel() / rows;
    std::vector<std::size_t> result;
    for (int rank = 0; rank < getSize(); ++rank) {
      const auto part = splits.empty() ? rows / getSize() : splits[static_cast<std::size_t>(rank)];
      result.push_back(static_cast<std::size_t>(part * row));
    }
    return result;
  };
  add_all_to_all(plan, call, output, input, elements(output_splits, output),
                 elements(input_splits, input));
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::barrier(const c10d::BarrierOptions& options) {
  return issue({.type = OpType::BARRIER,
                .title = "tutti:barrier",
                .timeout = options.timeout,
                .is_async = options.asyncOp,
                .requests = {{Collective{.operation = Operation::barrier}}}});
}

/// Over the store, so that the process group still works after a rank was late.
void ProcessGroupTutti::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? settings_.timeout : options.timeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto name = "monitored_barrier/" + std::to_string(monitored_barriers_++) + "/";
  const auto wait_for = [&](const std::string& key) {
    auto pause = std::chrono::microseconds(50);
    while (!store_->check({key})) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(5000));
    }
    return true;
  };
  if (getRank() != 0) {
    store_->set(name + std::to_string(getRank()), std::string("here"));
    const bool is_answered = wait_for(name + "answer");
    const auto answer = is_answered ? store_->get_to_str(name + "answer") : "no answer until the timeout";
    if (answer != "complete") {
      C10_THROW_ERROR(DistBackendError,
                      "Rank " + std::to_string(getRank()) +
                          " successfully reached monitoredBarrier, but received errors while "
                          "waiting for send/recv from rank 0. Please check rank 0 logs for faulty "
                          "rank. (" + answer + ")");
    }
    return;
  }
  std::vector<int> missing;
  for (int rank = 1; rank < getSize(); ++rank) {
    if (wait_for(name + std::to_string(rank))) continue;
    missing.push_back(rank);
    if (!wait_for_all) break;
  }
  if (missing.empty()) {
    store_->set(name + "answer", std::string("complete"));
    return;
  }
  std::string ranks;
  for (const int rank : missing) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  const auto text = (wait_for_all ? "Ranks " : "Rank ") + ranks +
                    " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms";
  store_->set(name + "answer", text);
  C10_THROW_ERROR(DistBackendError, "[Rank 0]: " + text);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::message(Operation operation, const char* call,
                                                          const Tensors& tensors, int peer,
                                                          int tag) {
  const auto& tensor = only(call, tensors);
  require_contiguous(call, tensor, true);
  TORCH_CHECK(peer >= 0 && peer < getSize(), prefix(call), "invalid rank: ", peer,
              ", expected 0 to ", getSize() - 1);
  TORCH_CHECK(tag >= 0, prefix(call), "invalid tag: ", tag, ", expected a non-negative number");
  const Moved moved(tensor);
  const bool sends = operation == Operation::send;
  Message request{.operation = operation, .type = moved.type};
  if (sends) {
    request.send = moved.data;
    request.send_count = moved.count;
    request.to = peer;
  } else {
    request.recv = moved.data;
    request.recv_count = moved.count;
    request.from = peer;
  }
  return issue({.type = sends ? OpType::SEND : OpType::RECV,
                .title = sends ? "tutti:send" : "tutti:recv",
                .inputs = tensors,
                .source = sends ? -1 : peer,
                .requests = {{request, {.tag = static_cast<std::uint32_t>(tag)}}},
                .outputs = tensors,
                .kept = tensors});
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::send(Tensors& tensors, int to, int tag) {
  return message(Operation::send, "send", tensors, to, tag);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::recv(Tensors& tensors, int from, int tag) {
  return message(Operation::recv, "recv", tensors, from, tag);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::recvAnysource(Tensors& /*tensors*/, int /*tag*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "Backend tutti does not support recvAnysource: name the source, recv(tensor, src=RANK)");
}

void ProcessGroupTutti::startCoalescing() {
  TORCH_CHECK(!coalesced_, prefix("startCoalescing"), "called twice without endCoalescing()");
  coalesced_ = std::make_shared<Call>(channel_);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::endCoalescing() {
  TORCH_CHECK(coalesced_, prefix("endCoalescing"), "called without startCoalescing()");
  return c10::make_intrusive<TuttiWork>(getRank(), OpType::COALESCED, "tutti:coalesced",
                                        Tensors(), sequence_.load(), -1,
                                        std::exchange(coalesced_, nullptr), completer_);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  std::vector<int> global_ranks;
  for (const int rank : ranks) {
    const auto& known = settings_.global_ranks;
    const auto index = static_cast<std::size_t>(rank);
    global_ranks.push_back(index < known.size() ? known[index] : rank);
  }
  return c10::make_intrusive<ProcessGroupTutti>(
      store, static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()),
      Settings{.timeout = options ? options->timeout : settings_.timeout,
               .name = options && !options->group_name.empty() ? options->group_name
                                                               : settings_.name + "/split",
               .global_ranks = std::move(global_ranks)});
}

}  // namespace tutti::torch_backend

PYBIND11_MODULE(TUTTI_TORCH_MODULE, module) {
  namespace py = pybind11;
  using tutti::torch_backend::ProcessGroupTutti;
  py::class_<ProcessGroupTutti, c10d::Backend, c10::intrusive_ptr<ProcessGroupTutti>>(
      module, "ProcessGroupTutti")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       std::chrono::milliseconds timeout, std::string name,
                       std::vector<int> global_ranks) {
             return c10::make_intrusive<ProcessGroupTutti>(
                 store, rank, size,
                 ProcessGroupTutti::Settings{timeout, std::move(name), std::move(global_ranks)});
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
           py::arg("name"), py::arg("global_ranks") = std::vector<int>(),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("failed_ranks", &ProcessGroupTutti::failed_ranks);
}
