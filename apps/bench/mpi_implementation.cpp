// The MPI library that launched the job, called in the usual way.
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <climits>
#include <cstring>
#include <vector>

#include "../text.hpp"
#include "implementations.hpp"

namespace tutti::app::bench {
namespace {

void check(int result) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw Error(ErrorCode::system, fmt::format("MPI failed: {}", text.data()));
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return mpi_version_text(text.data());
}

/// Operations that only move data may use any type of the same size.
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
    case Type::f16:
    case Type::bf16:
      return MPI_UINT16_T;
    case Type::f32:
      return MPI_FLOAT;
    case Type::f64:
      return MPI_DOUBLE;
    default:
      return MPI_UINT8_T;
  }
}

bool mpi_reduces(Type type) {
  return type != Type::f16 && type != Type::bf16 && type != Type::f8e4m3 && type != Type::f8e5m2;
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
    case Operator::sum:
      return MPI_SUM;
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
      return MPI_OP_NULL;
  }
}

class MpiImplementation final : public Implementation {
 public:
  MpiImplementation() : Implementation("mpi", library_version()) {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  }
  ~MpiImplementation() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Comm_free(&comm_);
  }

  std::string prepare(const Task& task) override {
    const auto& spec = task.spec;
    const auto shape = shape_of(spec);
    if (spec.count > static_cast<std::size_t>(INT_MAX)) {
      return fmt::format("MPI counts elements as int: {} are too many", spec.count);
    }
    if (shape.reduces && !mpi_reduces(spec.type)) {
      return fmt::format("MPI does not reduce {}", tutti::name(spec.type));
    }
    if (shape.reduces && mpi_operator(spec.type, spec.op) == MPI_OP_NULL) {
      return fmt::format("MPI has no {}", tutti::name(spec.op));
    }
    task_ = task;
    in_place_ = task.layout.shared;
    count_ = static_cast<int>(spec.count);
    type_ = mpi_type(spec.type);
    op_ = mpi_operator(spec.type, spec.op);
    root_ = spec.root;
    is_root_ = spec.rank == spec.root;
    requests_.clear();
    return {};
  }

  void run() override {
    switch (task_.spec.operation) {
      case Operation::barrier:
        return check(MPI_Barrier(comm_));
      case Operation::broadcast:
        return check(MPI_Bcast(task_.recv, count_, type_, root_, comm_));
      case Operation::fan_out:
        return fan_out();
      case Operation::send_recv:
        return check(MPI_Sendrecv(task_.send, count_, type_, next_of(task_.spec), 0, task_.recv,
                                  count_, type_, previous_of(task_.spec), 0, comm_,
                                  MPI_STATUS_IGNORE));
      case Operation::gather:
      case Operation::scatter:
      case Operation::all_gather:
      case Operation::all_to_all:
        return check(move_blocks());
      default:
        return check(reduce());
    }
  }

  /// The other implementations do not progress MPI, so MPI must complete its messages here.
  void drain() override { check(MPI_Barrier(comm_)); }

  void place_result() override {
    // MPI's in-place result is at the front of the buffer.
    if (task_.spec.operation != Operation::reduce_scatter || !in_place_) return;
    const auto size = size_of(task_.spec.type);
    std::memmove(static_cast<std::byte*>(task_.recv) + task_.layout.result_at * size, task_.recv,
                 task_.layout.result_elements * size);
  }

 private:
  [[nodiscard]] const void* input() const { return in_place_ ? MPI_IN_PLACE : task_.send; }

  void fan_out() {
    if (!is_root_) {
      return check(MPI_Recv(task_.recv, count_, type_, root_, 0, comm_, MPI_STATUS_IGNORE));
    }
    requests_.resize(static_cast<std::size_t>(task_.spec.ranks - 1));
    std::size_t sent = 0;
    for (int rank = 0; rank < task_.spec.ranks; ++rank) {
      if (rank == root_) continue;
      check(MPI_Isend(task_.recv, count_, type_, rank, 0, comm_, &requests_[sent++]));
    }
    check(MPI_Waitall(static_cast<int>(sent), requests_.data(), MPI_STATUSES_IGNORE));
  }

  int move_blocks() {
    switch (task_.spec.operation) {
      case Operation::gather:
        return MPI_Gather(input(), count_, type_, task_.recv, count_, type_, root_, comm_);
      case Operation::scatter:
        if (!in_place_) {
          return MPI_Scatter(task_.send, count_, type_, task_.recv, count_, type_, root_, comm_);
        }
        return MPI_Scatter(task_.recv, count_, type_, MPI_IN_PLACE, count_, type_, root_, comm_);
      case Operation::all_gather:
        return MPI_Allgather(input(), count_, type_, task_.recv, count_, type_, comm_);
      default:
        return MPI_Alltoall(input(), count_, type_, task_.recv, count_, type_, comm_);
    }
  }

  int reduce() {
    switch (task_.spec.operation) {
      case Operation::reduce:
        if (is_root_) return MPI_Reduce(input(), task_.recv, count_, type_, op_, root_, comm_);
        return MPI_Reduce(in_place_ ? task_.recv : task_.send, nullptr, count_, type_, op_, root_,
                          comm_);
      case Operation::scan:
        return MPI_Scan(input(), task_.recv, count_, type_, op_, comm_);
      case Operation::exclusive_scan:
        return MPI_Exscan(input(), task_.recv, count_, type_, op_, comm_);
      case Operation::reduce_scatter:
        return MPI_Reduce_scatter_block(input(), task_.recv, count_, type_, op_, comm_);
      default:
        return MPI_Allreduce(input(), task_.recv, count_, type_, op_, comm_);
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  Task task_;
  bool in_place_ = false;
  int count_ = 0;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
  int root_ = 0;
  bool is_root_ = false;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Implementation> make_mpi_implementation(JobSession& /*job*/) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    throw Error(ErrorCode::usage,
                "--vs mpi needs an MPI launcher: start it by mpirun -np N tutti bench …");
  }
  return std::make_unique<MpiImplementation>();
}

}  // namespace tutti::app::bench
