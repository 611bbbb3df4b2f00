#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

/// Lists of tensors, which tutti takes as one buffer.
namespace tutti::torch_backend {

inline std::vector<std::size_t> counts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> result;
  for (const auto& tensor : tensors) result.push_back(static_cast<std::size_t>(tensor.numel()));
  return result;
}

inline bool all_equal(const std::vector<std::size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

inline std::int64_t total(const std::vector<std::size_t>& counts) {
  return static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
}

/// One contiguous tensor of the elements of all.
inline at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const auto& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return at::cat(rows);
}

/// The reverse of flattened().
inline void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::int64_t begin = 0;
  for (auto tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

/// The tensor that `tensors` are adjacent parts of, so that nothing need be copied; else undefined.
inline at::Tensor joined(const std::vector<at::Tensor>& tensors) {
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

}  // namespace tutti::torch_backend
