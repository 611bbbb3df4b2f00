// The collectives that only move tensors.
#include "lists.hpp"
#include "process_group.hpp"

#include <torch/csrc/distributed/c10d/Utils.hpp>

namespace tutti::torch_backend {

using c10d::OpType;

ProcessGroupTutti::WorkPointer ProcessGroupTutti::broadcast(Tensors& tensors,
                                                            const c10d::BroadcastOptions& options) {
  const auto& tensor = only("broadcast", tensors);
  require_root("broadcast", options.rootRank);
  require_contiguous("broadcast", tensor, true);
  const Moved moved(tensor);
  auto plan = plan_of(OpType::BROADCAST, "tutti:broadcast", tensors, options, tensors);
  plan.kept = tensors;
  plan.requests = {{Collective{.operation = Operation::broadcast,
                               .type = moved.type,
                               .root = static_cast<int>(options.rootRank),
                               .recv = moved.data,
                               .recv_count = moved.count}}};
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
  plan.requests.push_back({collective_of(Operation::all_gather, from, to)});
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
  auto request = collective_of(Operation::all_gather_v, from, to);
  request.counts = plan.keep(std::move(blocks));
  plan.requests.push_back({request});
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allgather(std::vector<Tensors>& outputs,
                                                            Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  const auto& input = only("allgather", inputs);
  TORCH_CHECK(outputs.size() == 1, prefix("allgather"), "requires a single output tensor list");
  auto plan = plan_of(OpType::ALLGATHER, "tutti:all_gather", inputs, options);
  add_all_gather(plan, "allgather", outputs.front(), input);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  require_list("allgather_coalesced", "output",
               outputs.empty() ? Tensors() : Tensors(outputs.size()));
  auto plan = plan_of(OpType::ALLGATHER_COALESCED, "tutti:all_gather", inputs, options);
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
  auto plan =
      plan_of(OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", {input}, options, {output});
  add_all_gather(plan, "all_gather_single", output, input);
  return issue(std::move(plan));
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::all_gather_single_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), prefix("all_gather_single_coalesced"),
              "requires as many output as input tensors");
  auto plan = plan_of(kAllGatherCoalesced, "tutti:_all_gather_base", inputs, options, outputs);
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
  auto plan = plan_of(OpType::GATHER, "tutti:gather", inputs, options);
  const auto contiguous = plan.keep(input.detach().contiguous());
  const Moved from(contiguous);
  Collective request{.operation = Operation::gather,
                     .type = from.type,
                     .root = static_cast<int>(options.rootRank),
                     .send = from.data,
                     .send_count = from.count};
  if (options.rootRank == getRank()) {
    TORCH_CHECK(outputs.size() == 1, prefix("gather"),
                "requires a single-element output list containing a list of tensors");
    auto& list = outputs.front();
    require_list("gather", "output", list);
    for (const auto& output : list) {
      require_dense("gather", output);
      require_type("gather", output, input);
      TORCH_CHECK(output.numel() == input.numel(), prefix("gather"),
                  "invalid tensor size: ", output.numel(), " elements, expected ", input.numel());
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
  auto plan = plan_of(OpType::GATHER, "tutti:gather", {input}, options);
  plan.kept = {input};
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
  auto plan = plan_of(OpType::SCATTER, "tutti:scatter", {}, options, outputs);
  auto received = output.detach();
  if (!received.is_contiguous()) {
    received = at::empty(output.sizes(), output.options().requires_grad(false).memory_format(
                                             at::MemoryFormat::Contiguous));
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
    TORCH_CHECK(inputs.size() == 1, prefix("scatter"),
                "requires a single-element input list containing a list of tensors");
    const auto& list = inputs.front();
    require_list("scatter", "input", list);
    for (const auto& input : list) {
      require_dense("scatter", input);
      require_type("scatter", input, output);
      TORCH_CHECK(input.numel() == output.numel(), prefix("scatter"),
                  "invalid tensor size: ", input.numel(), " elements, expected ", output.numel());
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

void ProcessGroupTutti::add_all_to_all(Plan& plan, const char* call, const at::Tensor& output,
                                       const at::Tensor& input,
                                       std::vector<std::size_t> receive_counts,
                                       std::vector<std::size_t> send_counts) const {
  require_type(call, output, input);
  const Moved from(plan.keep(input));
  const Moved to(plan.keep(output));
  auto request = collective_of(Operation::all_to_all, from, to);
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
  auto plan = plan_of(OpType::ALLTOALL, "tutti:all_to_all", inputs, options, outputs);
  at::NoGradGuard no_grad;
  auto to = joined(outputs);
  if (!to.defined()) {
    to = at::empty(
        {total(counts_of(outputs))},
        outputs.front().options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous));
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
  auto plan = plan_of(OpType::ALLTOALL_BASE, "tutti:all_to_all", {input}, options, {output});
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

}  // namespace tutti::torch_backend
