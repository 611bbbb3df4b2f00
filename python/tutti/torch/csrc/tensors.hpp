#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compatibility.hpp"
#include "tutti/collective.hpp"
#include "tutti/types.hpp"

/// What torch's tensors, types and operators are in tutti's terms.
namespace tutti::torch_backend {

/// The type that tutti has for `type`, if there is one.
inline std::optional<Type> type_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return Type::i8;
    case at::kByte:
      return Type::u8;
    case at::kBool:
      return Type::boolean;
    case at::kShort:
      return Type::i16;
    case at::kUInt16:
      return Type::u16;
    case at::kComplexFloat:
      return Type::c64;
    case at::kComplexDouble:
      return Type::c128;
    case at::kInt:
      return Type::i32;
    case at::kUInt32:
      return Type::u32;
    case at::kLong:
      return Type::i64;
    case at::kUInt64:
      return Type::u64;
    case at::kHalf:
      return Type::f16;
    case at::kBFloat16:
      return Type::bf16;
    case at::kFloat:
      return Type::f32;
    case at::kDouble:
      return Type::f64;
    case at::kFloat8_e4m3fn:
      return Type::f8e4m3;
    case at::kFloat8_e5m2:
      return Type::f8e5m2;
    default:
      return std::nullopt;
  }
}

/// A tensor's memory for calls that do not reduce: of types that tutti lacks, its bytes.
struct Moved {
  Type type = Type::u8;
  std::size_t count = 0;
  std::size_t unit = 1;  ///< elements of `type` in one of the tensor's
  void* data = nullptr;

  explicit Moved(const at::Tensor& tensor)
      : unit(type_of(tensor.scalar_type()) ? 1 : tensor.element_size()) {
    type = type_of(tensor.scalar_type()).value_or(Type::u8);
    count = static_cast<std::size_t>(tensor.numel()) * unit;
    data = count == 0 ? nullptr : tensor.data_ptr();
  }
};

/// From one buffer to another of the same type.
inline Collective collective_of(Operation operation, const Moved& from, const Moved& to) {
  return {.operation = operation,
          .type = from.type,
          .send = from.data,
          .send_count = from.count,
          .recv = to.data,
          .recv_count = to.count};
}

/// "ProcessGroupTutti::allreduce", for errors.
inline std::string prefix(const char* call) {
  return std::string("ProcessGroupTutti::") + call + ": ";
}

/// Of memory that a call may read and write element by element.
inline void require_dense(const char* call, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), prefix(call), "a tensor is undefined");
  TORCH_CHECK(tensor.layout() == at::kStrided, prefix(call), "only supports dense tensors, not ",
              tensor.layout(), ": convert it by to_dense()");
  TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), prefix(call),
              "a tensor is a lazy conjugate: call resolve_conj().resolve_neg() first");
  TORCH_CHECK(tensor.device().is_cpu() || tensor.device().is_cuda(), prefix(call),
              "only supports CPU and CUDA tensors, not a tensor on ", tensor.device());
}

/// `in_any_order` also takes channels_last and the like, where all ranks have the same strides.
inline void require_contiguous(const char* call, const at::Tensor& tensor,
                               bool in_any_order = false) {
  require_dense(call, tensor);
  const bool fits = tensor.is_contiguous() ||
                    (in_any_order && tensor.is_contiguous(tensor.suggest_memory_format()));
  if (!fits)
    C10_THROW_ERROR(ValueError,
                    "Tensors must be contiguous (" + prefix(call) + "call contiguous() first)");
}

inline const at::Tensor& only(const char* call, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, prefix(call), "requires a single tensor, not a list of ",
              tensors.size());
  return tensors.front();
}

inline void require_type(const char* call, const at::Tensor& tensor, const at::Tensor& other) {
  TORCH_CHECK(tensor.scalar_type() == other.scalar_type(), prefix(call),
              "invalid tensor type: ", tensor.scalar_type(), " and ", other.scalar_type(),
              ", expected one type");
}

/// Throws ValueError for combinations that are not defined or that tutti lacks.
inline Reduction reduction_of(const char* call, const c10d::ReduceOp& op,
                              const at::Tensor& tensor) {
  using c10d::ReduceOp;
  const auto type = tensor.scalar_type();
  const auto refuse = [&](const std::string& why) {
    C10_THROW_ERROR(ValueError, prefix(call) + why);
  };
  Reduction result = Operator::sum;
  switch (op.op_) {
    case ReduceOp::SUM:
      break;
    case ReduceOp::PRODUCT:
      result = Operator::product;
      break;
    case ReduceOp::MIN:
      result = Operator::min;
      break;
    case ReduceOp::MAX:
      result = Operator::max;
      break;
    case ReduceOp::BAND:
      result = Operator::bit_and;
      break;
    case ReduceOp::BOR:
      result = Operator::bit_or;
      break;
    case ReduceOp::BXOR:
      result = Operator::bit_xor;
      break;
    case ReduceOp::AVG:
      if (type == at::kBool) refuse("Cannot use ReduceOp.AVG with boolean inputs");
      result = Operator::average;
      break;
    case ReduceOp::PREMUL_SUM: {
      if (!at::isFloatingType(type) && !at::isComplexType(type)) {
        refuse("PREMUL_SUM needs a tensor of floats");
      }
      const auto* const supplement = dynamic_cast<const PreMulSumSupplement*>(op.supplement_.get());
      if (supplement == nullptr) {
        refuse("PREMUL_SUM has no factor: make it by torch.distributed._make_nccl_premul_sum()");
      }
      result = premultiplied_sum(supplement->tensor_factor.defined()
                                     ? supplement->tensor_factor.item<double>()
                                     : supplement->double_factor);
      break;
    }
    default:
      refuse("the operator is unknown");
  }
  const bool is_bitwise =
      op.op_ == ReduceOp::BAND || op.op_ == ReduceOp::BOR || op.op_ == ReduceOp::BXOR;
  if (is_bitwise && !at::isIntegralType(type, true)) {
    refuse(std::string("Cannot use ReduceOp.BAND, BOR or BXOR with non-integral dtype ") +
           at::toString(type));
  }
  const auto known = type_of(type);
  // NCCL has arithmetic of 8-bit floats.
  if (tensor.is_cuda() && (known == Type::f8e4m3 || known == Type::f8e5m2)) return result;
  if (!known || !reducible(*known, Operator::sum)) {
    refuse(std::string("Invalid scalar type: tutti moves ") + at::toString(type) +
           " and does not reduce it");
  }
  if (!reducible(*known, result.op)) {
    refuse(std::string(at::toString(type)) + " has no " + std::string(name(result.op)));
  }
  return result;
}

}  // namespace tutti::torch_backend
