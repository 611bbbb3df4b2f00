// The table of operations and its copy in the documentation.
#include "base/shape.hpp"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "support/catch.hpp"

namespace tutti::test {
namespace {

std::string operators_of(Path path, Type type) {
  std::string text;
  for (int op = 0; op < operator_count; ++op) {
    if (!supported(path, Operation::all_reduce, type, static_cast<Operator>(op))) continue;
    text += (text.empty() ? "" : " ") + std::string(name(static_cast<Operator>(op)));
  }
  return text.empty() ? "–" : text;
}

std::string row_of(Type type) {
  const auto moved = [&](Path path) {
    return supported(path, Operation::broadcast, type, Operator::sum) ? "yes" : "no";
  };
  return "| " + std::string(name(type)) + " | " + moved(Path::host) + " | " +
         operators_of(Path::host, type) + " | " + moved(Path::device) + " | " +
         operators_of(Path::device, type) + " |";
}

}  // namespace

TEST_CASE("docs/semantics.md has the same table") {
  const std::string file = std::string(TUTTI_SOURCE_ROOT) + "/docs/semantics.md";
  std::ifstream stream(file);
  REQUIRE(stream);
  std::stringstream text;
  text << stream.rdbuf();
  for (int type = 0; type < type_count; ++type) {
    INFO("the page needs the row\n" << row_of(static_cast<Type>(type)));
    CHECK(text.str().find("\n" + row_of(static_cast<Type>(type)) + "\n") != std::string::npos);
  }
  for (int i = 0; i < operation_count; ++i) {
    const auto operation = static_cast<Operation>(i);
    const auto& shape = shape_of(operation);
    if (shape.send == Extent::none && shape.recv == Extent::none) continue;
    INFO(name(operation));
    CHECK(text.str().find("`" + std::string(name(operation))) != std::string::npos);
  }
}

TEST_CASE("shapes are consistent") {
  for (int i = 0; i < operation_count; ++i) {
    const auto operation = static_cast<Operation>(i);
    const auto& shape = shape_of(operation);
    INFO(name(operation));
    CHECK((!shape.send_at_root_only || shape.rooted));
    CHECK((!shape.recv_at_root_only || shape.rooted));
    CHECK((!shape.reduces || shape.send != Extent::none));
    const bool is_v = name(operation).ends_with("_v");
    CHECK(shape.counts_differ == is_v);
  }
  CHECK(!shape_of(Operation::send).collective);
  CHECK(shape_of(Operation::barrier).collective);
}

TEST_CASE("unsupported combinations") {
  CHECK(!supported(Path::host, Operation::all_reduce, Type::f32, Operator::bit_and));
  CHECK(!supported(Path::host, Operation::reduce, Type::f8e4m3, Operator::sum));
  CHECK(supported(Path::host, Operation::broadcast, Type::f8e4m3, Operator::sum));
  CHECK(!supported(Path::device, Operation::reduce_scatter, Type::i32, Operator::bit_xor));
  CHECK(supported(Path::host, Operation::reduce_scatter_v, Type::i32, Operator::bit_xor));
  CHECK(supported(Path::device, Operation::all_reduce, Type::bf16, Operator::average));
  CHECK(supported(Path::device, Operation::all_reduce, Type::boolean, Operator::logical_and));
  CHECK(!supported(Path::device, Operation::all_reduce, Type::boolean, Operator::bit_xor));
  CHECK(supported(Path::device, Operation::all_reduce, Type::c64, Operator::sum));
  CHECK(!supported(Path::device, Operation::all_reduce, Type::c64, Operator::product));
  CHECK(!supported(Path::device, Operation::all_reduce, Type::i16, Operator::sum));
  CHECK(supported(Path::device, Operation::all_gather, Type::i16, Operator::sum));
}

}  // namespace tutti::test
