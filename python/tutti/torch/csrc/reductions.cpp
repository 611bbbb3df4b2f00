// The collectives that combine tensors.
#include "lists.hpp"
#include "process_group.hpp"

namespace tutti::torch_backend {

using c10d::OpType;

void ProcessGroupTutti::add_all_reduce(Plan& plan, const char* call, const at::Tensor& tensor,
                                       const c10d::ReduceOp& op) const {
  require_contiguous(call, tensor, true);
  const auto reduction = reduction_of(call, op, tensor);
  const Moved moved(plan.keep(tensor));
  plan.requests.push_back({Collective{.operation = Operation::all_reduce,
                                      .type = moved.type,
                                      .op = reduction.op,
                                      .factor = reduction.factor,
                                      .recv = moved.data,
                                      .recv_count = moved.count,
                                      .in_place = true}});
  plan.outputs.push_back(tensor);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allreduce(Tensors& tensors,
                                                            const c10d::AllreduceOptions& options) {
  const auto& tensor = only("allreduce", tensors);
  if (tensor.defined() && tensor.layout() == at::kSparse) return allreduce_sparse(tensor, options);
  auto plan = plan_of(OpType::ALLREDUCE, "tutti:all_reduce", tensors, options);
  add_all_reduce(plan, "allreduce", tensor, options.reduceOp);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), prefix("allreduce_coalesced"), "requires non-empty tensor list");
  auto plan = plan_of(OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", tensors, options);
  for (const auto& tensor : tensors) {
    add_all_reduce(plan, "allreduce_coalesced", tensor, options.reduceOp);
  }
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::reduce(Tensors& tensors,
                                                         const c10d::ReduceOptions& options) {
  const auto& tensor = only("reduce", tensors);
  require_root("reduce", options.rootRank);
  require_contiguous("reduce", tensor, true);
  const auto reduction = reduction_of("reduce", options.reduceOp, tensor);
  auto plan = plan_of(OpType::REDUCE, "tutti:reduce", tensors, options, tensors);
  plan.kept = {tensor};
  const bool is_root = options.rootRank == getRank();
  const Moved moved(tensor);
  Collective request{.operation = Operation::reduce,
                     .type = moved.type,
                     .op = reduction.op,
                     .factor = reduction.factor,
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

void ProcessGroupTutti::add_reduce_scatter(Plan& plan, const char* call, const at::Tensor& output,
                                           const at::Tensor& input,
                                           const std::vector<std::size_t>& counts,
                                           const c10d::ReduceOp& op) const {
  const auto reduction = reduction_of(call, op, input);
  const Moved sent(plan.keep(input));
  const Moved received(plan.keep(output));
  auto request = collective_of(Operation::reduce_scatter, sent, received);
  request.op = reduction.op;
  request.factor = reduction.factor;
  if (!all_equal(counts)) {
    request.operation = Operation::reduce_scatter_v;
    request.counts = plan.keep(std::vector(counts));
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
  auto plan = plan_of(OpType::REDUCE_SCATTER, "tutti:reduce_scatter", list, options, outputs);
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
  auto plan = plan_of(outputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE : kReduceScatterCoalesced,
                      "tutti:_reduce_scatter_base", inputs, options, outputs);
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

}  // namespace tutti::torch_backend
