// Buffers in device memory without NCCL: copied through host memory.
#include "device/staging_plan.hpp"

#include <csignal>
#include <thread>

#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using gpu_test::check;
using gpu_test::operation_cases;

/// Rank 0's log messages.
struct Notes {
  std::vector<std::string> lines;
  [[nodiscard]] Options options() {
    return {.timeout = 20s,
            .log = [this](LogLevel, const std::string& line) { lines.push_back(line); }};
  }
};

const Variables one_device{{"FAKE_GPU_DEVICES", "1"}};

}  // namespace

TEST_CASE("ranks that share a device are staged through host memory, every operation") {
  const int size = GENERATE(2, 3);
  const auto reports = run_on_devices(size, one_device, [&](Rank& rank) -> std::string {
    Notes notes;
    auto& communicator = rank.communicator(notes.options());
    expect(communicator.has_device_path(), communicator.device_path_reason());
    DeviceMemory memory(communicator.device());
    std::uint64_t seed = 1;
    for (const auto& one : operation_cases({0, 1, 37, 20000}, {0, size - 1})) {
      const auto wrong = check(communicator, memory, one, ++seed);
      expect(wrong.empty(), wrong);
    }
    const auto wrong = gpu_test::check_messages(communicator, memory, {0, 1, 5000});
    expect(wrong.empty(), wrong);
    communicator.barrier({.stream = memory.stream()});
    communicator.finalize();
    expect(notes.lines.size() == (rank.rank() == 0 ? 1 : 0), "noted more or less than once");
    return rank.rank() == 0 ? notes.lines[0] : communicator.device_path_reason();
  });
  REQUIRE(errors_of(reports) == "");
  for (const auto& report : reports) {
    INFO(report.text);
    CHECK(report.text.find("staged through host memory") != std::string::npos);
    CHECK(report.text.find("Fake GPU") != std::string::npos);
  }
}

TEST_CASE("large buffers are staged in chunks") {
  const auto reports = run_on_devices(2, one_device, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 60s});
    DeviceMemory memory(communicator.device());
    // 4 MiB areas: several chunks, the last one shorter.
    const std::size_t count = (std::size_t{9} << 20) / 4 + 3;
    for (const bool in_place : {false, true}) {
      for (const bool started : {false, true}) {
        for (const auto operation :
             {Operation::all_reduce, Operation::all_gather, Operation::all_to_all,
              Operation::reduce_scatter, Operation::broadcast}) {
          if (in_place && operation == Operation::broadcast) continue;
          const auto wrong = check(communicator, memory,
                                   {.operation = operation,
                                    .type = Type::i32,
                                    .in_place = in_place,
                                    .started = started,
                                    .count = count},
                                   7);
          expect(wrong.empty(), wrong);
        }
      }
    }
    const auto wrong = gpu_test::check_messages(communicator, memory, {count});
    expect(wrong.empty(), wrong);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a non-blocking call on one rank matches a blocking one on another") {
  const auto reports = run_on_devices(2, one_device, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    DeviceMemory memory(communicator.device());
    const auto wrong = check(communicator, memory,
                             {.operation = Operation::all_reduce,
                              .started = rank.rank() == 0,
                              .count = std::size_t{3} << 20},
                             3);
    expect(wrong.empty(), wrong);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("non-blocking messages in both directions do not wait for each other") {
  const auto reports = run_on_devices(2, one_device, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    DeviceMemory memory(communicator.device());
    const std::size_t bytes = std::size_t{6} << 20;
    gpu_test::DeviceBuffer out(memory, bytes);
    gpu_test::DeviceBuffer in(memory, bytes);
    const auto value = std::byte(rank.rank() + 1);
    out.upload(std::vector<std::byte>(bytes, value));
    const device_span<std::byte> from(out.data(), bytes);
    const device_span<std::byte> to(in.data(), bytes);
    auto sent = communicator.start_send(from, 1 - rank.rank(), {.stream = memory.stream()});
    auto received = communicator.start_recv(to, 1 - rank.rank(), {.stream = memory.stream()});
    received.wait();
    sent.wait();
    expect(in.download() == std::vector<std::byte>(bytes, std::byte(2 - rank.rank())), "wrong");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a non-blocking call may be dropped, and synchronize() finishes it") {
  const auto reports = run_on_devices(2, one_device, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    DeviceMemory memory(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 4);
    buffer.upload({std::byte{3}, std::byte{0}, std::byte{0}, std::byte{0}});
    const device_span<std::int32_t> value(reinterpret_cast<std::int32_t*>(buffer.data()), 1);
    static_cast<void>(
        communicator.start_all_reduce(in_place, value, sum, {.stream = memory.stream()}));
    communicator.synchronize(memory.stream());
    expect(buffer.download()[0] == std::byte{6}, "not done");
    static_cast<void>(
        communicator.start_all_reduce(in_place, value, sum, {.stream = memory.stream()}));
    rank.destroy_communicators();  // with the call under way
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("finalize() finishes dropped non-blocking calls") {
  const auto reports = run_on_devices(2, one_device, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    DeviceMemory memory(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 4);
    buffer.upload({std::byte{3}, std::byte{0}, std::byte{0}, std::byte{0}});
    const device_span<std::int32_t> value(reinterpret_cast<std::int32_t*>(buffer.data()), 1);
    static_cast<void>(
        communicator.start_all_reduce(in_place, value, sum, {.stream = memory.stream()}));
    communicator.finalize();
    expect(buffer.download()[0] == std::byte{6}, "the result is not there");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("MIG slices and nodes without NCCL are staged, too") {
  const Variables slices{{"FAKE_GPU_MIG", "1"}};
  const Variables no_nccl{{"FAKE_NCCL_VERSION", "0"}};
  for (const auto& variables : {slices, no_nccl}) {
    const auto reports = run_on_devices(2, variables, [](Rank& rank) -> std::string {
      Notes notes;
      auto& communicator = rank.communicator(notes.options());
      DeviceMemory memory(communicator.device());
      const auto wrong = check(communicator, memory, {.count = 10}, 1);
      expect(wrong.empty(), wrong);
      return communicator.device_path_reason();
    });
    REQUIRE(errors_of(reports) == "");
    CHECK(reports[1].text.find(variables.contains("FAKE_GPU_MIG") ? "MIG" : "has no NCCL") !=
          std::string::npos);
  }
}

TEST_CASE("mismatches are reported as the user's calls, and no copy outlives its call") {
  // A process that was stopped finds the limit of its wait for the copy passed.
  const bool is_stopped = GENERATE(false, true);
  CAPTURE(is_stopped);
  tutti::test::Job job(2, [](Rank& rank) -> std::string {
    set("FAKE_GPU_DEVICES", "1");
    set("FAKE_GPU_DELAY_US", "300000");
    auto& communicator = rank.communicator({.timeout = 20s});
    DeviceMemory memory(communicator.device());
    const std::size_t count = (std::size_t{2} << 20) + static_cast<std::size_t>(rank.rank());
    try {
      gpu_test::DeviceBuffer buffer(memory, count * 4);
      rank.mark();
      communicator.all_reduce(in_place,
                              device_span<float>(reinterpret_cast<float*>(buffer.data()), count),
                              sum, {.stream = memory.stream()});
      communicator.finalize();
    } catch (const Error&) {
      // A copy in flight would access freed memory.
      std::this_thread::sleep_for(700ms);
      throw;
    }
    return "nothing was thrown";
  });
  if (is_stopped) {
    job.await_marks_of_all(1);
    // After two pieces of work on the stream the mismatch is known; two more are queued.
    std::this_thread::sleep_for(750ms);
    for (int rank = 0; rank < 2; ++rank) job.signal(rank, SIGSTOP);
    std::this_thread::sleep_for(2500ms);
    for (int rank = 0; rank < 2; ++rank) job.signal(rank, SIGCONT);
  }
  const auto reports = job.finish();
  for (const auto& report : reports) {
    INFO(tutti::test::describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->sentence.find("2097152 f32") != std::string::npos);
    CHECK(report.failure->sentence.find("2097153 f32") != std::string::npos);
  }
}

TEST_CASE("a chunk reads and writes the same elements of every block") {
  std::vector<std::byte> memory(1000);
  const CheckedCollective call{.operation = Operation::all_gather,
                               .type = Type::f64,
                               .count = 25,
                               .send = memory.data(),
                               .recv = memory.data()};
  const StagingPlan plan(call, 1, 3, 240);  // 10 elements of each of 3 blocks
  REQUIRE(plan.chunks() == 3);
  CHECK(plan.send_area_bytes() == 80);
  CHECK(plan.recv_area_bytes() == 240);
  CHECK(plan.send_piece(2, 0).in_buffer == 160);
  CHECK(plan.send_piece(2, 0).bytes == 40);
  CHECK(plan.recv_piece(2, 1).in_buffer == 25 * 8 + 160);
  CHECK(plan.recv_piece(2, 1).in_area == 40);
  CHECK(plan.call(2, nullptr, nullptr).count == 5);
}

TEST_CASE("displaced blocks are staged each by itself, without gaps") {
  std::vector<std::byte> memory(1000);
  const std::vector<std::size_t> counts{2, 0, 3};
  const std::vector<std::size_t> begins{7, 0, 1};
  const CheckedCollective call{.operation = Operation::gather_v,
                               .type = Type::f64,
                               .root = 1,
                               .count = 0,
                               .send = memory.data(),
                               .recv = memory.data(),
                               .counts = counts,
                               .displacements = begins};
  const StagingPlan plan(call, 1, 3, 240);
  REQUIRE(plan.chunks() == 1);
  CHECK(plan.send_pieces() == 1);
  REQUIRE(plan.recv_pieces() == 3);
  CHECK(plan.recv_area_bytes() == 40);
  CHECK(plan.recv_piece(0, 0).in_buffer == 56);
  CHECK(plan.recv_piece(0, 0).bytes == 16);
  CHECK(plan.recv_piece(0, 1).bytes == 0);
  CHECK(plan.recv_piece(0, 2).in_buffer == 8);
  CHECK(plan.recv_piece(0, 2).in_area == 16);
  CHECK(plan.recv_piece(0, 2).bytes == 24);
  CHECK(plan.call(0, nullptr, nullptr).displacements.empty());
}

}  // namespace tutti::device::test
