// Descriptions and fingerprints of calls.
#include "base/call_signature.hpp"

#include <set>
#include <vector>

#include "support/catch.hpp"

namespace tutti::test {

namespace {

const CallSignature sample{Operation::broadcast, Type::f32, Operator::sum, 2, 100};

/// `sample` with one field changed, for each field.
std::vector<CallSignature> variations() {
  auto operation = sample;
  operation.operation = Operation::fan_out;
  auto type = sample;
  type.type = Type::f64;
  auto op = sample;
  op.op = Operator::max;
  auto root = sample;
  root.root = 3;
  auto no_root = sample;
  no_root.root = -1;
  auto count = sample;
  count.count = 101;
  auto large_count = sample;
  large_count.count = 100 + (std::uint64_t{1} << 40);
  return {operation, type, op, root, no_root, count, large_count};
}

}  // namespace

TEST_CASE("calls are described in words") {
  CHECK(describe({}) == "no call");
  CHECK(describe({.operation = Operation::barrier}) == "barrier");
  CHECK(describe({.operation = Operation::finalize}) == "finalize");
  CHECK(describe({Operation::all_reduce, Type::f32, Operator::sum, -1, 409600}) ==
        "all_reduce of 409600 f32, sum");
  CHECK(describe({Operation::broadcast, Type::u8, Operator::sum, 0, 4}) ==
        "broadcast of 4 u8 from rank 0");
  CHECK(describe({Operation::fan_out, Type::i64, Operator::sum, 3, 1}) ==
        "fan_out of 1 i64 from rank 3");
  CHECK(describe({Operation::send, Type::f16, Operator::sum, 5, 7}) == "send of 7 f16 to rank 5");
  CHECK(describe({Operation::recv, Type::bf16, Operator::sum, 5, 7}) ==
        "recv of 7 bf16 from rank 5");
  CHECK(describe({Operation::recv, Type::bf16, Operator::sum, -1, 7}) ==
        "recv of 7 bf16 from any rank");
  CHECK(describe({Operation::send_recv, Type::u64, Operator::sum, 5, 7}) ==
        "send_recv of 7 u64 to rank 5");
}

TEST_CASE("every operation has a unique name, and out-of-range values are safe") {
  std::set<std::string_view> names;
  for (int i = 0; i < operation_count; ++i) names.insert(name(static_cast<Operation>(i)));
  CHECK(names.size() == operation_count);
  CHECK(name(static_cast<Operation>(200)) == "unknown operation");
  const CallSignature wild{static_cast<Operation>(200), static_cast<Type>(200),
                           static_cast<Operator>(200), 0, 1};
  CHECK(describe(wild) == "unknown operation of 1 unknown type from rank 0");
}

TEST_CASE("each field of a call changes its fingerprint") {
  std::set<std::uint64_t> prints{fingerprint(0, sample)};
  for (const auto& call : variations()) {
    CHECK(prints.insert(fingerprint(0, call)).second);
    CHECK(call != sample);
  }
}

TEST_CASE("earlier calls and their order change a fingerprint") {
  for (const auto& other : variations()) {
    CHECK(fingerprint(fingerprint(0, sample), other) != fingerprint(fingerprint(0, other), sample));
  }
  CHECK(fingerprint(1, sample) != fingerprint(0, sample));
  CHECK(fingerprint(fingerprint(0, sample), sample) != fingerprint(0, sample));
}

TEST_CASE("a difference persists in later fingerprints") {
  auto mine = fingerprint(0, sample);
  auto theirs = fingerprint(0, variations()[0]);
  for (int i = 0; i < 1000; ++i) {
    mine = fingerprint(mine, sample);
    theirs = fingerprint(theirs, sample);
    REQUIRE(mine != theirs);
  }
}

TEST_CASE("fingerprints are equal in every build") {
  // Computed with Python.
  CHECK(fingerprint(0, sample) == 0xAD67BEFC94D02FF6);
}

}  // namespace tutti::test
