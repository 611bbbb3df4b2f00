// Calls that are captured in a graph and replayed. Like the real one, the fake driver refuses what
// is illegal during capture: queries, waits and allocations.
#include "gpu/graph.hpp"
#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

const Options on_nccl{.timeout = 20s, .backend = BackendChoice::nccl};

}  // namespace

TEST_CASE("captured calls are replayed, and replays do not count as calls") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const auto wrong = gpu_test::check_graph(communicator, memory);
    expect(wrong.empty(), wrong);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("waiting for a stream during capture is refused") {
  const auto reports = run_on_devices(1, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 4);
    const device_span<int> value(reinterpret_cast<int*>(buffer.data()), 1);
    gpu_test::Capture capture(memory.stream());
    auto work = communicator.start_broadcast(value, 0, {.stream = memory.stream()});
    int refused = 0;
    try {
      communicator.synchronize(memory.stream());
    } catch (const Error& error) {
      refused += error.code() == ErrorCode::usage ? 1 : 0;
    }
    try {
      work.wait();
    } catch (const Error& error) {
      refused += error.code() == ErrorCode::usage ? 1 : 0;
    }
    return std::to_string(refused);
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(reports[0].text == "2");
}

TEST_CASE("capturing staged calls is refused") {
  const auto reports =
      run_on_devices(2, {{"FAKE_GPU_DEVICES", "1"}}, [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 20s});
        DeviceMemory memory(communicator.device());
        gpu_test::DeviceBuffer buffer(memory, 4);
        const device_span<int> value(reinterpret_cast<int*>(buffer.data()), 1);
        gpu_test::Capture capture(memory.stream());
        try {
          communicator.broadcast(value, 0, {.stream = memory.stream()});
        } catch (const Error& error) {
          return error.sentence();
        }
        return "nothing was thrown";
      });
  REQUIRE(errors_of(reports) == "");
  CHECK(reports[0].text.find("can't be captured") != std::string::npos);
}

}  // namespace tutti::device::test
