// The direct path end to end: the library with a fake driver, whose kernels the CPU runs.
#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>

#include "base/shape.hpp"
#include "direct/image.hpp"
#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "gpu/graph.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using gpu_test::check;
using gpu_test::check_burst;
using gpu_test::DeviceBuffer;

const Options on_nccl{
    .timeout = 20s, .backend = BackendChoice::nccl, .log = [](LogLevel, const std::string&) {}};
const Variables direct{
    {"FAKE_GPU_IPC", "1"}, {"FAKE_GPU_DEVICES", "8"}, {"TUTTI_DEVICE_PATH", "direct"}};
const Variables automatic{{"FAKE_GPU_IPC", "1"}};

bool has_kernels() {
  if (direct::kernel_image() != nullptr) return true;
  std::cout << "skipped: tutti was built without nvcc, so it has no direct path\n";
  return false;
}

void expect_algorithm(const Communicator& communicator, const std::string& name) {
  expect(communicator.latest_algorithm() == name, communicator.latest_algorithm());
}

device_span<std::int32_t> integers(const DeviceBuffer& buffer, std::size_t most = SIZE_MAX) {
  return {reinterpret_cast<std::int32_t*>(buffer.data()), std::min(buffer.bytes() / 4, most)};
}

}  // namespace

TEST_CASE("random calls on the direct path, on two streams") {
  if (!has_kernels()) return;
  const int size = GENERATE(2, 3, 5);
  const auto reports = run_on_devices(size, direct, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory first(communicator.device());
    DeviceMemory second(communicator.device());
    std::mt19937_64 random(static_cast<std::uint64_t>(size));
    for (int i = 0; i < 150; ++i) {
      // The fakes compute with integers.
      const auto one = gpu_test::random_direct_case(random, size, 6, std::size_t{2} << 20);
      const auto wrong = check(communicator, random() % 2 == 0 ? first : second, one, random());
      expect(wrong.empty(), wrong);
      if (one.count > 0) expect_algorithm(communicator, "direct");
    }
    const auto wrong = check_burst(communicator, first, second, 60);
    expect(wrong.empty(), wrong);
    communicator.barrier({.stream = Stream(first.stream())});
    communicator.synchronize(Stream(first.stream()));
    expect_algorithm(communicator, "direct");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("large calls on memory from allocate_device() are in windows") {
  if (!has_kernels()) return;
  const int size = GENERATE(2, 3, 5);
  const auto reports = run_on_devices(size, direct, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const auto bad = gpu_test::check_allocations(communicator, memory);
    expect(bad.empty(), bad);
    std::mt19937_64 random(static_cast<std::uint64_t>(size));
    std::mt19937_64 own(static_cast<std::uint64_t>(rank.rank()));
    for (int i = 0; i < 60; ++i) {
      auto one = gpu_test::random_direct_case(random, size, 6, std::size_t{2} << 20);
      if (shape_of(one.operation).reduces) {
        one.type = i % 2 == 0 ? Type::f32 : Type::f64;
        one.op = Operator::sum;
      }
      one.in_windows = true;
      one.count = std::max(one.count, (std::size_t{300} << 10) / size_of(one.type));
      // Ranks find each other's buffers, wherever they are.
      one.offset = own() % 20;
      const auto wrong = check(communicator, memory, one, random());
      expect(wrong.empty(), wrong);
      expect_algorithm(communicator, "direct-windows");
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("memory of allocate_device() outlives its communicator") {
  if (!has_kernels()) return;
  const auto reports = run_on_devices(2, direct, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const auto values = communicator.allocate_device<std::int32_t>(100);
    rank.destroy_communicators();
    std::vector<std::int32_t> read(100, 1);
    memory.copy_to_host(read.data(), values.data(), 400);
    expect(read.back() == 0, "it has changed");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a graph of direct calls can be launched again and again") {
  if (!has_kernels()) return;
  const auto reports = run_on_devices(2, direct, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const auto wrong = gpu_test::check_graph(communicator, memory);
    expect(wrong.empty(), wrong);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("small buffers take the direct path, large ones and other operations NCCL") {
  if (!has_kernels()) return;
  const auto reports = run_on_devices(2, automatic, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const Stream stream(memory.stream());
    DeviceBuffer buffer(memory, std::size_t{6} << 20);
    const auto values = integers(buffer);
    const auto few = integers(buffer, 100);
    communicator.all_reduce(in_place, few, sum, {.stream = stream});
    expect_algorithm(communicator, "direct");
    communicator.all_reduce(in_place, values, sum, {.stream = stream});
    expect_algorithm(communicator, "nccl");
    communicator.all_reduce(in_place, few, average, {.stream = stream});
    expect_algorithm(communicator, "nccl");
    communicator.reduce(in_place, few, sum, 0, {.stream = stream});
    expect_algorithm(communicator, "nccl");
    communicator.broadcast(few, 1, {.stream = stream});
    expect_algorithm(communicator, "direct");
    communicator.synchronize(stream);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("without access to each other's memory, or if told so, NCCL takes all calls") {
  const auto* const variable = GENERATE("FAKE_GPU_IPC", "TUTTI_DEVICE_PATH");
  const bool told = std::string(variable) == "TUTTI_DEVICE_PATH";
  const Variables variables{{"FAKE_GPU_IPC", told ? "1" : "0"},
                            {"TUTTI_DEVICE_PATH", told ? "nccl" : "auto"}};
  const auto reports = run_on_devices(2, variables, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    DeviceBuffer buffer(memory, 400);
    communicator.all_reduce(in_place, integers(buffer), sum, {.stream = Stream(memory.stream())});
    expect_algorithm(communicator, "nccl");
    communicator.synchronize(Stream(memory.stream()));
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("parts and copies of a communicator have direct paths of their own") {
  if (!has_kernels()) return;
  const auto reports = run_on_devices(4, direct, [](Rank& rank) -> std::string {
    auto& whole = rank.communicator(on_nccl);
    DeviceMemory memory(whole.device());
    DeviceMemory other(whole.device());
    for (int i = 0; i < 3; ++i) {
      auto part = whole.split(rank.rank() / 2);
      auto copy = whole.duplicate();
      for (auto* const one : {&*part, &copy, &whole}) {
        const auto wrong = check_burst(*one, memory, other, 20);
        expect(wrong.empty(), wrong);
        expect_algorithm(*one, "direct");
      }
    }
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a rank is killed while the others wait in the kernels of the direct path") {
  if (!has_kernels()) return;
  const auto bytes = GENERATE(std::size_t{400}, std::size_t{1} << 20);
  const auto reports = run_on_devices(3, direct, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const Stream stream(memory.stream());
    DeviceBuffer buffer(memory, bytes);
    for (int i = 0;; ++i) {
      if (rank.rank() == 1 && i == 5) std::raise(SIGKILL);
      communicator.all_reduce(in_place, integers(buffer), max, {.stream = stream});
      communicator.synchronize(stream);
    }
  });
  for (const std::size_t survivor : {0U, 2U}) {
    INFO(tutti::test::describe(reports));
    REQUIRE(reports[survivor].failure);
    CHECK(reports[survivor].failure->code == ErrorCode::peer_lost);
    CHECK(reports[survivor].failure->failed_ranks == std::vector{1});
  }
}

TEST_CASE("after a loss no rank takes data that was never stored for a result") {
  if (!has_kernels()) return;
  // Rank 0 waits for room at rank 2, which is killed; rank 1 waits for rank 0 alone.
  const auto reports = run_on_devices(3, direct, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const Stream stream(memory.stream());
    DeviceBuffer buffer(memory, std::size_t{3} << 20);
    const std::vector<std::byte> due(buffer.bytes(), std::byte{7});
    if (rank.rank() == 0) buffer.upload(due);
    communicator.barrier({.stream = stream});
    communicator.synchronize(stream);
    if (rank.rank() == 2) std::raise(SIGKILL);
    for (int i = 0; i < 20; ++i) {
      if (rank.rank() == 1) buffer.poison();
      communicator.broadcast(integers(buffer), 0, {.stream = stream});
      communicator.synchronize(stream);
      if (buffer.download() != due) return "WRONG DATA";
    }
    return "all arrived";
  });
  INFO(tutti::test::describe(reports));
  for (const std::size_t survivor : {0U, 1U}) {
    CHECK(reports[survivor].text != "WRONG DATA");
    REQUIRE(reports[survivor].failure);
    CHECK(reports[survivor].failure->code == ErrorCode::peer_lost);
  }
}

TEST_CASE("after a loss a stream that waits for a call on another stream goes on") {
  if (!has_kernels()) return;
  const auto reports = run_on_devices(2, direct, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory first(communicator.device());
    DeviceMemory second(communicator.device());
    DeviceBuffer buffer(first, 400);
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(200ms);
      std::raise(SIGKILL);
    }
    try {
      communicator.all_reduce(in_place, integers(buffer), max, {.stream = Stream(first.stream())});
      communicator.all_reduce(in_place, integers(buffer), max, {.stream = Stream(second.stream())});
      communicator.synchronize(Stream(first.stream()));
      return "nothing was thrown";
    } catch (const Error&) {
      // Streams of a program that waits by CUDA's own means end, too.
      const auto wait = reinterpret_cast<int (*)(void*)>(cuda_symbol("cuStreamSynchronize"));
      wait(first.stream());
      wait(second.stream());
      return "both streams ended";
    }
  });
  INFO(tutti::test::describe(reports));
  CHECK(reports[0].text == "both streams ended");
}

TEST_CASE("a rank that stays away from a direct call ends it at the deadline") {
  if (!has_kernels()) return;
  const auto reports = run_on_devices(2, direct, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 2s,
                                            .backend = BackendChoice::nccl,
                                            .log = [](LogLevel, const std::string&) {}});
    DeviceMemory memory(communicator.device());
    const Stream stream(memory.stream());
    DeviceBuffer buffer(memory, 400);
    if (rank.rank() == 1) std::this_thread::sleep_for(4s);
    communicator.all_reduce(in_place, integers(buffer), max, {.stream = stream});
    communicator.synchronize(stream);
    return "nothing was thrown";
  });
  INFO(tutti::test::describe(reports));
  REQUIRE(reports[0].failure);
  CHECK(reports[0].failure->code == ErrorCode::timeout);
}

}  // namespace tutti::device::test
