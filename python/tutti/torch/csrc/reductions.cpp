// The collectives that combine tensors.
#include "lists.hpp"
#include "process_group.hpp"

namespace tutti::torch_backend {

using c10d::OpType;

void ProcessGroupTutti::add_all_reduce(Plan& plan, const char* call, const at::Tensor& given,
                                       const c10d::ReduceOp& op) const {
  require_contiguous(call, given, true);
  const auto tensor = given.is_complex() && acts_on_parts(op) ? at::view_as_real(given) : given;
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

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allreduce(Tensors& tensors,
                                                            const c10d::AllreduceOptions& options) {
  auto plan = plan_of(OpType::ALLREDUCE, "tutti:all_reduce", tensors, options);
  add_all_reduce(plan, "allreduce", only("allreduce", tensors), options.reduceOp);
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
  const auto& given = only("reduce", tensors);
  require_root("reduce", options.rootRank);
  require_contiguous("reduce", given, true);
  const auto tensor =
      given.is_complex() && acts_on_parts(options.reduceOp) ? at::view_as_real(given) : given;
  const auto reduction = reduction_of("reduce", options.reduceOp, tensor.scalar_type());
  auto plan = plan_of(OpType::REDUCE, "tutti:reduce", tensors, options, tensors);
  plan.kept = {tensor};
  const bool is_root = options.rootRank == getRank();
  // Only the root's tensor may change.
  auto sent = tensor;
  if (reduction.through != at::ScalarType::Undefined)
    sent = plan.keep(tensor.to(reduction.through));
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

void ProcessGroupTutti::add_reduce_scatter(Plan& plan, const char* call, const at::Tensor& output,
                                           const at::Tensor& input,
                                           const std::vector<std::size_t>& counts,
                                           const c10d::ReduceOp& op) const {
  at::NoGradGuard no_grad;
  const bool is_complex = input.is_complex() && acts_on_parts(op);
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
  auto request = collective_of(Operation::reduce_scatter, sent, received);
  request.op = reduction.op;
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
