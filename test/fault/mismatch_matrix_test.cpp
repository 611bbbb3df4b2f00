// Each pair of operations, and each parameter of each operation: all ranks report both calls.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/shape.hpp"
#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

/// A collective on buffers that are large enough for all variants.
struct Variant {
  std::string name;
  Operation operation;
  Type type = Type::f32;
  Operator op = Operator::sum;
  int root = 0;
  std::size_t count = 60;
};

void call(Communicator& communicator, const Variant& variant) {
  std::vector<std::uint64_t> send(1000);
  std::vector<std::uint64_t> recv(1000);
  const auto& shape = shape_of(variant.operation);
  const auto elements = [&](Extent extent) {
    if (extent == Extent::none) return std::size_t{0};
    const auto size = static_cast<std::size_t>(communicator.size());
    return extent == Extent::one ? variant.count : variant.count * size;
  };
  Collective collective{.operation = variant.operation};
  if (shape.recv != Extent::none) {
    const bool is_root = !shape.rooted || communicator.rank() == variant.root;
    collective.type = variant.type;
    collective.op = variant.op;
    if (shape.rooted) collective.root = variant.root;
    if (shape.send != Extent::none && (is_root || !shape.send_at_root_only)) {
      collective.send = send.data();
      collective.send_count = elements(shape.send);
    }
    if (is_root || !shape.recv_at_root_only) {
      collective.recv = recv.data();
      collective.recv_count = elements(shape.recv);
    }
  }
  communicator.run(collective);
}

std::vector<Variant> operations() {
  std::vector<Variant> all;
  for (const auto operation :
       {Operation::broadcast, Operation::fan_out, Operation::all_reduce, Operation::reduce,
        Operation::all_gather, Operation::gather, Operation::scatter, Operation::reduce_scatter,
        Operation::all_to_all, Operation::barrier, Operation::scan, Operation::exclusive_scan}) {
    all.push_back({.name = std::string(name(operation)), .operation = operation});
  }
  return all;
}

void check_reported(const Variant& most, const Variant& one, int size, int deviant) {
  CAPTURE(most.name, one.name, size, deviant);
  const auto reports = run_ranks(size, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    const auto begin = Clock::now();
    try {
      call(communicator, rank.rank() == deviant ? one : most);
      communicator.finalize();
    } catch (const Error& error) {
      // Detected by comparing calls, not by the deadline.
      expect(Clock::now() - begin < 2s * time_factor(), "it took long: " + error.sentence());
      throw;
    }
    return "nobody noticed";
  });
  INFO(describe(reports));
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->sentence == reports.front().failure->sentence);
    for (const auto* variant : {&most, &one}) {
      CHECK(report.failure->sentence.find("called " + std::string(name(variant->operation))) !=
            std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("each pair of operations") {
  int deviant = 0;
  for (const auto& most : operations()) {
    for (const auto& one : operations()) {
      if (most.operation == one.operation) continue;
      deviant = (deviant + 1) % 3;
      check_reported(most, one, 3, deviant);
    }
  }
}

TEST_CASE("each field of each operation") {
  int deviant = 0;
  for (const auto& most : operations()) {
    const auto& shape = shape_of(most.operation);
    std::vector<Variant> others;
    const auto add = [&](const char* field, auto change) {
      auto other = most;
      other.name += std::string(", another ") + field;
      change(other);
      others.push_back(other);
    };
    if (most.operation == Operation::barrier) continue;
    add("type", [](Variant& variant) { variant.type = Type::i32; });
    add("count", [](Variant& variant) { variant.count = 59; });
    if (shape.rooted) add("root", [](Variant& variant) { variant.root = 1; });
    if (shape.reduces) add("operator", [](Variant& variant) { variant.op = Operator::max; });
    for (const auto& other : others) {
      deviant = (deviant + 1) % 3;
      check_reported(most, other, 3, deviant);
    }
  }
}

}  // namespace tutti::test
