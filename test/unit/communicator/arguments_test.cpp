// Arguments that one rank can check: a pure function of the call and the group.
#include "communicator/arguments.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::test {
namespace {

constexpr int ranks = 3;

std::string refusal(const Collective& call, const control::Group& group) {
  try {
    static_cast<void>(check_arguments(call, group));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.what();
  }
  return {};
}

std::string refusal(const Message& message, const control::Group& group) {
  try {
    check_arguments(message, group);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.what();
  }
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the count of a block follows from the buffers of each operation") {
  std::array<float, 30> send{};
  std::array<float, 30> recv{};
  const auto count = [&](Operation operation, std::size_t sent, std::size_t received, int rank) {
    return check_arguments(Collective{.operation = operation,
                                      .type = Type::f32,
                                      .root = 1,
                                      .send = send.data(),
                                      .send_count = sent,
                                      .recv = recv.data(),
                                      .recv_count = received},
                           control::Group::whole_job(rank, ranks))
        .count;
  };
  CHECK(count(Operation::all_reduce, 10, 10, 0) == 10);
  CHECK(count(Operation::all_gather, 10, 30, 0) == 10);
  CHECK(count(Operation::reduce_scatter, 30, 10, 0) == 10);
  CHECK(count(Operation::all_to_all, 30, 30, 0) == 10);
  CHECK(count(Operation::gather, 10, 30, 1) == 10);
  CHECK(count(Operation::gather, 10, 0, 0) == 10);
  CHECK(count(Operation::scatter, 30, 10, 1) == 10);
  CHECK(count(Operation::scatter, 0, 10, 2) == 10);
}

TEST_CASE("a buffer that a rank does not have is null after the check") {
  std::array<float, 30> send{};
  std::array<float, 30> recv{};
  const Collective call{.operation = Operation::reduce,
                        .type = Type::f32,
                        .root = 1,
                        .send = send.data(),
                        .send_count = 30,
                        .recv = recv.data(),
                        .recv_count = 30};
  CHECK(check_arguments(call, control::Group::whole_job(1, ranks)).recv == recv.data());
  CHECK(check_arguments(call, control::Group::whole_job(0, ranks)).recv == nullptr);
}

TEST_CASE("in place, the own block lies at the rank's place in the larger buffer") {
  std::array<std::int64_t, 12> buffer{};
  const auto checked = check_arguments(Collective{.operation = Operation::all_gather,
                                                  .type = Type::i64,
                                                  .recv = buffer.data(),
                                                  .recv_count = 12,
                                                  .in_place = true},
                                       control::Group::whole_job(2, ranks));
  CHECK(checked.in_place);
  CHECK(checked.count == 4);
  CHECK(checked.send == buffer.data() + 8);
  CHECK(checked.recv == buffer.data());

  SECTION("and so it is by address") {
    const auto by_address = check_arguments(Collective{.operation = Operation::all_gather,
                                                       .type = Type::i64,
                                                       .send = buffer.data() + 8,
                                                       .send_count = 4,
                                                       .recv = buffer.data(),
                                                       .recv_count = 12},
                                            control::Group::whole_job(2, ranks));
    CHECK(by_address.in_place);
  }
  SECTION("but another rank's block overlaps") {
    const auto text = refusal(Collective{.operation = Operation::all_gather,
                                         .type = Type::i64,
                                         .send = buffer.data() + 4,
                                         .send_count = 4,
                                         .recv = buffer.data(),
                                         .recv_count = 12},
                              control::Group::whole_job(2, ranks));
    CHECK(has(text, "overlap"));
  }
  SECTION("of blocks with different lengths, after those of the ranks before") {
    const std::vector<std::size_t> counts{5, 1, 6};
    const auto uneven = check_arguments(Collective{.operation = Operation::all_gather_v,
                                                   .type = Type::i64,
                                                   .recv = buffer.data(),
                                                   .recv_count = 12,
                                                   .in_place = true,
                                                   .counts = counts},
                                        control::Group::whole_job(2, ranks));
    CHECK(uneven.send == buffer.data() + 6);
    CHECK(uneven.count == 6);
  }
  SECTION("of displaced blocks, at its displacement") {
    const std::vector<std::size_t> counts{5, 1, 3};
    const std::vector<std::size_t> begins{7, 0, 2};
    Collective call{.operation = Operation::all_gather_v,
                    .type = Type::i64,
                    .recv = buffer.data(),
                    .recv_count = 12,
                    .in_place = true,
                    .counts = counts,
                    .displacements = begins};
    const auto whole = control::Group::whole_job(2, ranks);
    CHECK(check_arguments(call, whole).send == buffer.data() + 2);
    call.in_place = false;
    call.send = buffer.data() + 2;
    call.send_count = 3;
    CHECK(check_arguments(call, whole).in_place);
    call.send = buffer.data() + 6;
    CHECK(has(refusal(call, whole), "overlap"));
  }
}

TEST_CASE("a refused call names the argument, its value and what would fit") {
  std::array<float, 30> send{};
  std::array<float, 30> recv{};
  const auto group = control::Group::whole_job(0, ranks);
  Collective call{.operation = Operation::broadcast,
                  .type = Type::f32,
                  .root = 3,
                  .recv = recv.data(),
                  .recv_count = 30};
  SECTION("the root") {
    const auto text = refusal(call, group);
    CHECK(has(text, "root 3"));
    CHECK(has(text, "ranks 0 to 2"));
  }
  SECTION("a null buffer") {
    call.root = 0;
    call.recv = nullptr;
    CHECK(has(refusal(call, group), "null"));
    call.recv_count = 0;
    CHECK(refusal(call, group).empty());
  }
  SECTION("more than memory can hold") {
    call.root = 0;
    call.recv_count = SIZE_MAX / 2;
    CHECK(has(refusal(call, group), "memory"));
  }
  SECTION("counts that differ") {
    call = {.operation = Operation::all_reduce,
            .type = Type::f32,
            .send = send.data(),
            .send_count = 10,
            .recv = recv.data(),
            .recv_count = 11};
    const auto text = refusal(call, group);
    CHECK(has(text, "10"));
    CHECK(has(text, "11"));
  }
  SECTION("blocks that are not even") {
    call = {.operation = Operation::reduce_scatter,
            .type = Type::f32,
            .recv = recv.data(),
            .recv_count = 29,
            .in_place = true};
    const auto text = refusal(call, group);
    CHECK(has(text, "29"));
    CHECK(has(text, "reduce_scatter_v"));
  }
  SECTION("counts with an entry too few") {
    const std::vector<std::size_t> counts{10, 20};
    call = {.operation = Operation::all_gather_v,
            .type = Type::f32,
            .send = send.data(),
            .send_count = 10,
            .recv = recv.data(),
            .recv_count = 30,
            .counts = counts};
    CHECK(has(refusal(call, group), "2 entries"));
  }
  SECTION("displacements") {
    const std::vector<std::size_t> counts{10, 0, 10};
    std::vector<std::size_t> begins{20, 99, 0};
    call = {.operation = Operation::all_gather_v,
            .type = Type::f32,
            .send = send.data(),
            .send_count = 10,
            .recv = recv.data(),
            .recv_count = 30,
            .counts = counts,
            .displacements = begins};
    CHECK(refusal(call, group).empty());
    begins[0] = 21;
    CHECK(has(refusal(call, group), "block 0 has 10 f32 from element 21 on"));
    CHECK(has(refusal(call, group), "receive buffer has 30"));
    begins[0] = SIZE_MAX;
    CHECK(has(refusal(call, group), "block 0"));
    begins[0] = 9;
    CHECK(has(refusal(call, group), "blocks 2 and 0 overlap"));
    begins = {20, 0};
    call.displacements = begins;
    CHECK(has(refusal(call, group), "2 entries"));
    call.displacements = {};
    CHECK(has(refusal(call, group), "30 elements, expected 20"));
    call.recv_displacements = begins;
    CHECK(has(refusal(call, group), "recv_displacements"));
    call.operation = Operation::reduce_scatter_v;
    CHECK(has(refusal(call, group), "reduce_scatter_v takes no displacements"));
    call.operation = Operation::all_gather;
    call.counts = {};
    CHECK(has(refusal(call, group), "all_gather takes no displacements"));
  }
  SECTION("the displacement of an empty block") {
    const std::vector<std::size_t> counts{0, 3, 3};
    const std::vector<std::size_t> begins{SIZE_MAX, 0, 3};
    call = {.operation = Operation::all_gather_v,
            .type = Type::f32,
            .recv = recv.data(),
            .recv_count = 6,
            .in_place = true,
            .counts = counts,
            .displacements = begins};
    CHECK(check_arguments(call, group).send == recv.data());
  }
  SECTION("counts of all_to_all_v for the rank itself") {
    const std::vector<std::size_t> counts{10, 0, 0};
    const std::vector<std::size_t> recv_counts{1, 0, 0};
    call = {.operation = Operation::all_to_all_v,
            .type = Type::f32,
            .send = send.data(),
            .send_count = 10,
            .recv = recv.data(),
            .recv_count = 1,
            .counts = counts,
            .recv_counts = recv_counts};
    CHECK(has(refusal(call, group), "10 f32"));
    CHECK(has(refusal(call, group), "receives 1"));
  }
  SECTION("blocks that are sent may overlap") {
    const std::vector<std::size_t> counts{10, 10, 10};
    const std::vector<std::size_t> begins{0, 5, 0};
    call = {.operation = Operation::scatter_v,
            .type = Type::f32,
            .root = 0,
            .send = send.data(),
            .send_count = 15,
            .recv = recv.data(),
            .recv_count = 10,
            .counts = counts,
            .displacements = begins};
    CHECK(refusal(call, group).empty());
    call.send_count = 14;
    CHECK(has(refusal(call, group), "send buffer has 14"));
  }
  SECTION("a message as a collective call") {
    call.operation = Operation::send;
    CHECK_FALSE(refusal(call, group).empty());
    call.operation = Operation::none;
    CHECK_FALSE(refusal(call, group).empty());
  }
}

TEST_CASE("a refusal in a sub-communicator also has the job's numbers") {
  std::array<float, 3> buffer{};
  const control::Group group{.id = 7, .rank = 0, .world = {2, 5}};
  const auto text = refusal(Collective{.operation = Operation::broadcast,
                                       .type = Type::f32,
                                       .root = 2,
                                       .recv = buffer.data(),
                                       .recv_count = 3},
                            group);
  CHECK(has(text, "ranks 0 to 1"));
  CHECK(has(text, "ranks 2 and 5 of the job"));
  CHECK(rank_text(1, group) == "rank 1 of this communicator (rank 5 of the job)");
}

TEST_CASE("messages to oneself are refused, but for a send_recv of equal counts") {
  std::array<float, 8> buffer{};
  const auto group = control::Group::whole_job(1, ranks);
  Message message{.operation = Operation::send,
                  .type = Type::f32,
                  .send = buffer.data(),
                  .send_count = 4,
                  .to = 1};
  CHECK(has(refusal(message, group), "send_recv"));
  message = {.operation = Operation::recv,
             .type = Type::f32,
             .recv = buffer.data(),
             .recv_count = 4,
             .from = 3};
  CHECK(has(refusal(message, group), "sender 3"));
  message = {.operation = Operation::send_recv,
             .type = Type::f32,
             .send = buffer.data(),
             .send_count = 4,
             .to = 1,
             .recv = buffer.data() + 4,
             .recv_count = 4,
             .from = 1};
  CHECK(refusal(message, group).empty());
  message.recv_count = 3;
  CHECK_FALSE(refusal(message, group).empty());
  message.recv = buffer.data() + 3;
  message.recv_count = 4;
  CHECK(has(refusal(message, group), "overlap"));
}

TEST_CASE("a repeated call is not checked again, and a changed one is") {
  std::array<float, 8> buffer{};
  const auto group = control::Group::whole_job(0, ranks);
  CheckedArguments arguments;
  Collective call{.operation = Operation::broadcast,
                  .type = Type::f32,
                  .root = 1,
                  .recv = buffer.data(),
                  .recv_count = 8};
  CHECK(arguments.of(call, group).count == 8);
  call.recv_count = 4;
  CHECK(arguments.of(call, group).count == 4);
  call.root = 3;
  CHECK_THROWS_AS(arguments.of(call, group), Error);
  call.root = 1;
  CHECK(arguments.of(call, group).root == 1);
}

}  // namespace tutti::test
