#pragma once

#include <torch/version.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

/// torch's interface of backends as the newest version has it, for all versions from 2.6.
namespace tutti::torch_backend {

#define TUTTI_TORCH_IS_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||           \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

/// False: the caller waits for the returned Work itself, as all callers did before options had
/// `asyncOp`.
template <class Options>
bool is_async(const Options& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

/// Of several reduce-scatters and all-gathers in one call; older versions have no names for them.
template <class Type>
constexpr Type reduce_scatter_coalesced() {
  if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; }) {
    return Type::REDUCE_SCATTER_TENSOR_COALESCED;
  } else {
    return Type::COALESCED;
  }
}
template <class Type>
constexpr Type all_gather_coalesced() {
  if constexpr (requires { Type::ALLGATHER_INTO_TENSOR_COALESCED; }) {
    return Type::ALLGATHER_INTO_TENSOR_COALESCED;
  } else {
    return Type::COALESCED;
  }
}
constexpr auto kReduceScatterCoalesced = reduce_scatter_coalesced<c10d::OpType>();
constexpr auto kAllGatherCoalesced = all_gather_coalesced<c10d::OpType>();

#if TUTTI_TORCH_IS_AT_LEAST(2, 13)
using c10d::PreMulSumSupplement;
#else
using PreMulSumSupplement = c10d::NCCLPreMulSumSupplement;
#endif

/// c10d::Backend with the methods that the newest torch has. Those that a version does not know are
/// called by nobody there.
class BackendInterface : public c10d::Backend {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using c10d::Backend::Backend;

  /// They begin at 0 on all ranks.
  void setSequenceNumberForGroup() override {}

#if !TUTTI_TORCH_IS_AT_LEAST(2, 7)
  virtual void abort() = 0;
  virtual void shutdown() = 0;
#endif

#if TUTTI_TORCH_IS_AT_LEAST(2, 7)
  using ErrorType = c10d::ErrorType;
#else
  enum class ErrorType { SUCCESS, TIMEOUT, COMM_ERROR, REMOTE_ERROR };
  virtual ErrorType getError() = 0;
#endif

#if !TUTTI_TORCH_IS_AT_LEAST(2, 9)
  struct Options : c10d::Backend::Options {
    using c10d::Backend::Options::Options;
    std::string group_name;
    std::vector<std::uint64_t> global_ranks_in_group;
  };
  virtual c10::intrusive_ptr<Options> getBackendOptions() = 0;
  virtual void setTimeout(std::chrono::milliseconds timeout) = 0;
  virtual c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const std::vector<int>& ranks,
                                                  const c10::intrusive_ptr<Options>& options) = 0;
#endif

#if !TUTTI_TORCH_IS_AT_LEAST(2, 14)
  // The calls on single tensors have had other names.
  virtual WorkPointer all_gather_single(at::Tensor& output, at::Tensor& input,
                                        const c10d::AllgatherOptions& options) = 0;
  virtual WorkPointer all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) = 0;
  virtual WorkPointer gather_single(at::Tensor& output, at::Tensor& input,
                                    const c10d::GatherOptions& options) = 0;
  virtual WorkPointer reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                            const c10d::ReduceScatterOptions& options) = 0;
  virtual WorkPointer reduce_scatter_single_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) = 0;
  virtual WorkPointer all_to_all_single(at::Tensor& output, at::Tensor& input,
                                        std::vector<std::int64_t>& output_splits,
                                        std::vector<std::int64_t>& input_splits,
                                        const c10d::AllToAllOptions& options) = 0;

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) final {
    return all_gather_single(output, input, options);
  }
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) final {
    return all_gather_single_coalesced(outputs, inputs, options);
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) final {
    return reduce_scatter_single(output, input, options);
  }
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) final {
    return reduce_scatter_single_coalesced(outputs, inputs, options);
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) final {
    return all_to_all_single(output, input, output_splits, input_splits, options);
  }
#endif
};

/// Python copies them where torch's own class has no copy: split_group() of some versions does.
struct CopyableOptions final : BackendInterface::Options {
  using BackendInterface::Options::Options;
};

}  // namespace tutti::torch_backend
