// All-reduce of sparse tensors (COO) in host memory: each rank gathers the entries of all ranks,
// and adds those with the same indices.
#include <algorithm>

#include "lists.hpp"
#include "process_group.hpp"

namespace tutti::torch_backend {
namespace {

constexpr const char* call_name = "allreduce of a sparse tensor";

/// The number of entries; then what all ranks must have alike: sparse dimensions, sizes.
std::vector<std::int64_t> description_of(const at::Tensor& coalesced) {
  std::vector<std::int64_t> result = {coalesced.indices().size(1), coalesced.sparse_dim()};
  result.insert(result.end(), coalesced.sizes().begin(), coalesced.sizes().end());
  return result;
}

}  // namespace

at::Tensor ProcessGroupTutti::gathered(const at::Tensor& rows,
                                       const std::vector<std::size_t>& row_counts,
                                       Milliseconds timeout) const {
  std::vector<std::int64_t> sizes = rows.sizes().vec();
  sizes.front() = total(row_counts);
  auto result = at::empty(sizes, rows.options());
  const Moved from(rows);
  const Moved to(result);
  auto request = collective_of(Operation::all_gather, from, to);
  auto counts = row_counts;
  if (!all_equal(counts)) {
    const auto elements = rows.sizes().slice(1);
    const auto row = static_cast<std::size_t>(c10::multiply_integers(elements)) * from.unit;
    for (auto& count : counts) count *= row;
    request.operation = Operation::all_gather_v;
    request.counts = counts;
  }
  channel()->run({request, {.timeout = timeout}});
  return result;
}

void ProcessGroupTutti::add_sparse(at::Tensor tensor, Milliseconds timeout) const {
  at::NoGradGuard no_grad;
  const auto mine = tensor.detach().coalesce();
  const auto size = static_cast<std::size_t>(getSize());
  const auto description = at::tensor(description_of(mine), at::kLong).unsqueeze(0);
  const auto all = gathered(description, std::vector<std::size_t>(size, 1), timeout);
  std::vector<std::size_t> entries;
  for (std::int64_t rank = 0; rank < getSize(); ++rank) {
    const auto theirs = all[rank];
    TORCH_CHECK_VALUE(theirs.slice(0, 1).equal(description[0].slice(0, 1)), prefix(call_name),
                      "ranks ", getRank(), " and ", rank,
                      " have different sizes or sparse dimensions");
    entries.push_back(static_cast<std::size_t>(theirs[0].item<std::int64_t>()));
  }
  const auto indices = gathered(mine.indices().t().contiguous(), entries, timeout);
  const auto values = gathered(mine.values().contiguous(), entries, timeout);
  tensor.copy_(
      at::sparse_coo_tensor(indices.t(), values, mine.sizes(), values.options().layout(at::kSparse))
          .coalesce());
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::allreduce_sparse(
    at::Tensor tensor, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensor.device().is_cpu(), prefix(call_name),
              "only supports tensors on the CPU, not on ", tensor.device(),
              ": convert it by to_dense()");
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM, prefix(call_name),
                    "only supports ReduceOp.SUM: convert it by to_dense()");
  static_cast<void>(reduction_of(call_name, options.reduceOp, tensor));
  TORCH_CHECK(!is_coalescing_, prefix(call_name), "can't be part of a batch");
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? settings_.timeout : options.timeout;
  auto call = std::make_shared<Call>(channel());
  auto work =
      c10::make_intrusive<TuttiWork>(getRank(), c10d::OpType::_ALLREDUCE_SPARSE, "tutti:all_reduce",
                                     Tensors{tensor}, ++sequence_, call, completer_);
  call->outputs = {tensor};
  try {
    add_sparse(tensor, timeout);
  } catch (...) {
    call->complete(std::current_exception());
    throw;
  }
  work->complete();
  return work;
}

}  // namespace tutti::torch_backend
