// MPI's side of a comparison.
#include <cstring>

#include "base/shape.hpp"
#include "compare.hpp"
#include "values.hpp"

namespace tutti::test {
namespace {

MPI_Datatype mpi_type(Type type) {
  switch (type) {
    case Type::i8:
      return MPI_INT8_T;
    case Type::i16:
      return MPI_INT16_T;
    case Type::u16:
      return MPI_UINT16_T;
    case Type::boolean:
      return MPI_C_BOOL;
    case Type::c64:
      return MPI_C_FLOAT_COMPLEX;
    case Type::c128:
      return MPI_C_DOUBLE_COMPLEX;
    case Type::i32:
      return MPI_INT32_T;
    case Type::u32:
      return MPI_UINT32_T;
    case Type::i64:
      return MPI_INT64_T;
    case Type::u64:
      return MPI_UINT64_T;
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
    case Type::f16:
    case Type::bf16:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

MPI_Op mpi_operator(Type type, Operator op) {
  // MPI has the logical operators only for bool.
  if (type == Type::boolean) {
    if (op == Operator::sum || op == Operator::max || op == Operator::bit_or) return MPI_LOR;
    if (op == Operator::product || op == Operator::min || op == Operator::bit_and) return MPI_LAND;
    if (op == Operator::bit_xor) return MPI_LXOR;
  }
  switch (op) {
    case Operator::logical_and:
      return MPI_LAND;
    case Operator::logical_or:
      return MPI_LOR;
    case Operator::logical_xor:
      return MPI_LXOR;
    case Operator::product:
      return MPI_PROD;
    case Operator::min:
      return MPI_MIN;
    case Operator::max:
      return MPI_MAX;
    case Operator::bit_and:
      return MPI_BAND;
    case Operator::bit_or:
      return MPI_BOR;
    case Operator::bit_xor:
      return MPI_BXOR;
    default:
      return MPI_SUM;
  }
}

int checked_int(std::size_t value) {
  return static_cast<int>(value);  // counts are small
}

}  // namespace

void Comparison::run_theirs() {
  const auto elements = sides().recv;
  const bool in_f64 = is_16_bit(case_.type) && shape_of(case_.operation).reduces;
  if (!in_f64) {
    expected_.assign(elements * size_of(case_.type), poison);
    auto input = input_;
    if (multiplies()) multiply(input, part_of(case_.type), factor_of(rank_));
    run_their_collective(input.data(), expected_.data());
    return;
  }
  // MPI has no 16-bit floats. The reference is MPI's reduction of the same values in f64.
  const auto sent = input_.size() / 2;
  std::vector<double> wide(sent);
  const double factor = multiplies() ? factor_of(rank_) : 1;
  for (std::size_t i = 0; i < sent; ++i) {
    wide[i] = value_of(case_.type, input_.data() + 2 * i) * factor;
  }
  expected_.assign(elements * sizeof(double), poison);
  const auto type = case_.type;
  case_.type = Type::f64;
  run_their_collective(wide.data(), expected_.data());
  case_.type = type;
}

void Comparison::run_their_collective(const void* send, void* recv) {
  const auto type = mpi_type(case_.type);
  const auto op = mpi_operator(case_.type, case_.op);
  const auto comm = pair_.theirs;
  const int root = case_.root;
  const int count = checked_int(block(rank_));
  std::vector<int> counts;
  std::vector<int> places;
  std::vector<int> alike;
  std::vector<int> alike_places;
  for (int rank = 0; rank < size_; ++rank) {
    counts.push_back(checked_int(block(rank)));
    places.push_back(checked_int(begin_of(rank)));
    alike.push_back(count);
    alike_places.push_back(checked_int(recv_places_.begins[static_cast<std::size_t>(rank)]));
  }
  switch (case_.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
      if (rank_ == root) std::memcpy(recv, send, input_.size());
      MPI_Bcast(recv, count, type, root, comm);
      break;
    case Operation::all_reduce:
      MPI_Allreduce(send, recv, count, type, op, comm);
      break;
    case Operation::reduce:
      MPI_Reduce(send, recv, count, type, op, root, comm);
      break;
    case Operation::scan:
      MPI_Scan(send, recv, count, type, op, comm);
      break;
    case Operation::exclusive_scan:
      MPI_Exscan(send, recv, count, type, op, comm);
      break;
    case Operation::all_gather:
    case Operation::all_gather_v:
      MPI_Allgatherv(send, count, type, recv, counts.data(), places.data(), type, comm);
      break;
    case Operation::gather:
    case Operation::gather_v:
      MPI_Gatherv(send, count, type, recv, counts.data(), places.data(), type, root, comm);
      break;
    case Operation::scatter:
    case Operation::scatter_v:
      MPI_Scatterv(send, counts.data(), places.data(), type, recv, count, type, root, comm);
      break;
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      MPI_Reduce_scatter(send, recv, counts.data(), type, op, comm);
      break;
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      MPI_Alltoallv(send, counts.data(), places.data(), type, recv, alike.data(),
                    alike_places.data(), type, comm);
      break;
    default:
      MPI_Barrier(comm);
  }
  if (case_.op != Operator::average || !shape_of(case_.operation).reduces) return;
  const auto elements = sides().recv;
  auto* const at = static_cast<std::byte*>(recv);
  const auto part = part_of(case_.type);
  const auto parts = elements * size_of(case_.type) / size_of(part);
  for (std::size_t i = 0; i < parts; ++i) {
    switch (part) {
      case Type::f32:
        store(at + 4 * i, load<float>(at + 4 * i) / static_cast<float>(size_));
        break;
      case Type::f64:
        store(at + 8 * i, load<double>(at + 8 * i) / size_);
        break;
      default: {
        // Below 128 in every type: sums of up to 8 numbers below 16.
        std::uint64_t value = 0;
        std::memcpy(&value, at + i * size_of(case_.type), size_of(case_.type));
        value /= static_cast<std::uint64_t>(size_);
        std::memcpy(at + i * size_of(case_.type), &value, size_of(case_.type));
      }
    }
  }
}

}  // namespace tutti::test
