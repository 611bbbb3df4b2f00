#include "nccl_call.hpp"

#include <array>

#include "device/nccl_numbers.hpp"
#include "support/catch.hpp"

namespace tutti::preload::test {
namespace {

constexpr int f32 = 7;
constexpr int sum = 0;
constexpr int max = 2;

TEST_CASE("a call of NCCL has its types and operators by number") {
  for (const auto type : {Type::i8, Type::u8, Type::i32, Type::u32, Type::i64, Type::u64, Type::f16,
                          Type::bf16, Type::f32, Type::f64, Type::f8e4m3, Type::f8e5m2}) {
    const NcclCall call{.kind = CallKind::all_gather, .count = 1, .type = device::nccl_type(type)};
    CHECK(translate(call, 0, 2)->type == type);
  }
  for (const auto op :
       {Operator::sum, Operator::product, Operator::min, Operator::max, Operator::average}) {
    const NcclCall call{.kind = CallKind::all_reduce,
                        .count = 1,
                        .type = device::nccl_type(Type::i32),
                        .op = *device::nccl_operator(Type::i32, op)};
    CHECK(translate(call, 0, 2)->op == op);
  }
}

TEST_CASE("what the direct path has no call for is not translated") {
  NcclCall call{.kind = CallKind::all_reduce, .count = 1, .type = f32, .op = sum};
  CHECK(translate(call, 0, 2));
  // Made by ncclRedOpCreatePreMulSum, and a type of a later NCCL.
  for (const auto& [type, op] : {std::array{f32, 5}, std::array{12, sum}, std::array{-1, sum}}) {
    call.type = type;
    call.op = op;
    CHECK_FALSE(translate(call, 0, 2));
    CHECK(why_not_translated(call) == Obstacle::arithmetic);
  }
  call = {.kind = CallKind::all_reduce, .count = 0, .type = f32};
  CHECK_FALSE(translate(call, 0, 2));
  CHECK(why_not_translated(call) == Obstacle::arguments);
  call = {.kind = CallKind::reduce, .count = 1, .type = f32, .root = 0};
  CHECK_FALSE(translate(call, 0, 2));
  CHECK(why_not_translated(call) == Obstacle::operation);
}

TEST_CASE("a maximum of floats stays with NCCL, which passes over NaN") {
  NcclCall call{.kind = CallKind::all_reduce, .count = 1, .type = f32, .op = max};
  CHECK_FALSE(translate(call, 0, 2));
  call.type = device::nccl_type(Type::i32);
  CHECK(translate(call, 0, 2));
}

TEST_CASE("only a broadcast's root sends") {
  std::array<float, 2> send{};
  std::array<float, 2> recv{};
  NcclCall call{.kind = CallKind::broadcast,
                .send = send.data(),
                .recv = recv.data(),
                .count = 2,
                .type = f32,
                .root = 1};
  CHECK(translate(call, 0, 2)->send == nullptr);
  CHECK(translate(call, 1, 2)->send == send.data());
  CHECK(translate(call, 1, 2)->root == 1);
  for (const int root : {-1, 2}) {
    call.root = root;
    CHECK_FALSE(translate(call, 0, 2));
    CHECK(why_not_translated(call) == Obstacle::arguments);
  }
}

TEST_CASE("an all-gather is in place if a rank sends its own block") {
  std::array<float, 6> all{};
  NcclCall call{
      .kind = CallKind::all_gather, .send = &all[2], .recv = all.data(), .count = 2, .type = f32};
  CHECK_FALSE(translate(call, 0, 3)->in_place);
  CHECK(translate(call, 1, 3)->in_place);
  CHECK_FALSE(translate(call, 2, 3)->in_place);
}

TEST_CASE("a call's text has its name, count and type") {
  CHECK(describe({.kind = CallKind::reduce_scatter, .count = 4, .type = f32}) ==
        "ncclReduceScatter of 4 f32");
  CHECK(describe({.kind = CallKind::send, .count = 4, .type = 99}) == "ncclSend of 4 elements");
}

}  // namespace
}  // namespace tutti::preload::test
