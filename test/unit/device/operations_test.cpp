// Every operation on device memory, end to end: the library with a fake driver and a fake NCCL.
#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using gpu_test::arithmetic_cases;
using gpu_test::check;
using gpu_test::check_messages;
using gpu_test::operation_cases;

const Options on_nccl{.timeout = 20s, .backend = BackendChoice::nccl};

std::string run_cases(Communicator& communicator, const std::vector<gpu_test::Case>& cases) {
  DeviceMemory memory(communicator.device());
  std::uint64_t seed = 1;
  for (const auto& one : cases) {
    const auto wrong = check(communicator, memory, one, ++seed);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

TEST_CASE(
    "every operation, out of place and in place, blocking and non-blocking, from the first and the "
    "last root") {
  const int size = GENERATE(1, 2, 3, 4);
  const auto reports = run_on_devices(size, {}, [&](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    expect(communicator.has_device_path(), communicator.device_path_reason());
    const auto cases = operation_cases({0, 1, 37, 20000}, {0, size - 1});
    const auto wrong = run_cases(communicator, cases);
    expect(wrong.empty(), wrong);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("every type and operator that NCCL reduces") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    const auto wrong = run_cases(rank.communicator(on_nccl), arithmetic_cases(100, true));
    expect(wrong.empty(), wrong);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("messages of any length") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const auto wrong = check_messages(communicator, memory, {0, 1, 1000, 100000});
    expect(wrong.empty(), wrong);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a barrier on a stream, and memory of the host through the same communicator") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    communicator.barrier({.stream = memory.stream()});
    std::vector<int> values{rank.rank() + 1};
    communicator.all_reduce(in_place, std::span(values), sum);
    expect(values[0] == 3, "the host path is wrong");
    communicator.synchronize(memory.stream());
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("without a stream a call is enqueued on the default stream, as NCCL's are for 0") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 4);
    const device_span<std::int32_t> value(reinterpret_cast<std::int32_t*>(buffer.data()), 1);
    buffer.upload({std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}});
    const auto value_after = [&](Stream stream) {
      communicator.synchronize(stream);
      std::int32_t result = 0;
      memory.copy_to_host(&result, buffer.data(), 4);
      return result;
    };
    communicator.all_reduce(in_place, value, sum);
    expect(value_after(Stream()) == 2, "the default stream has not done it");
    communicator.start_all_reduce(in_place, value, sum, {.stream = nullptr}).wait();
    expect(value_after(Stream()) == 4, "the default stream has not done it, named");
    auto before = communicator.start_all_reduce(in_place, value, sum);
    before.wait(memory.stream());
    communicator.all_reduce(in_place, value, sum, {.stream = memory.stream()});
    expect(value_after(memory.stream()) == 16, "the two are not in order");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("v-forms and structs on device memory by the typed calls") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    struct Pair {
      std::int32_t a, b;
    };
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 64);
    auto* const data = reinterpret_cast<Pair*>(buffer.data());
    const auto mine = static_cast<std::byte>(rank.rank() + 1);
    buffer.upload(std::vector<std::byte>(24, mine));
    // Rank 0 has one, rank 1 has two.
    const std::vector<std::size_t> counts{1, 2};
    const auto count = counts[static_cast<std::size_t>(rank.rank())];
    const device_span<const Pair> own(data, count);
    const device_span<Pair> all(data + 4, 3);
    communicator.all_gather_v(own, all, counts, {.stream = memory.stream()});
    communicator.synchronize(memory.stream());
    const auto bytes = buffer.download();
    for (std::size_t i = 0; i < 24; ++i) {
      expect(bytes[32 + i] == static_cast<std::byte>(i < 8 ? 1 : 2), "WRONG DATA");
    }

    // Rank 1's two, a gap that stays, rank 0's one.
    buffer.upload(std::vector<std::byte>(32, std::byte{9}), 32);
    const std::array<std::size_t, 2> begins{3, 0};
    communicator.all_gather_v(own, device_span<Pair>(data + 4, 4), {counts, begins},
                              {.stream = memory.stream()});
    communicator.synchronize(memory.stream());
    const auto displaced = buffer.download();
    for (std::size_t i = 0; i < 32; ++i) {
      const auto due = i < 16 ? 2 : i < 24 ? 9 : 1;
      expect(displaced[32 + i] == static_cast<std::byte>(due), "WRONG DATA of displaced blocks");
    }
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("operations are NCCL's own where it has them, else one group") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const Stream stream(memory.stream());
    gpu_test::DeviceBuffer buffer(memory, 64);
    auto* const data = reinterpret_cast<std::int32_t*>(buffer.data());
    const device_span<std::int32_t> one(data, 4);
    const device_span<std::int32_t> two(data + 8, 8);
    reinterpret_cast<void (*)()>(nccl_symbol("fake_nccl_clear_trace"))();
    communicator.all_gather(one, two, {.stream = stream});
    communicator.reduce_scatter(two, one, max, {.stream = stream});
    communicator.reduce(in_place, one, sum, 1, {.stream = stream});
    communicator.broadcast(one, 1, {.stream = stream});
    communicator.fan_out(one, 0, {.stream = stream});
    communicator.gather(one, two, 0, {.stream = stream});
    communicator.synchronize(stream);
    return nccl_trace();
  });
  REQUIRE(errors_of(reports) == "");
  const std::string same = "all_gather 4;reduce_scatter 4;reduce 4 to 1;broadcast 4 from 1;";
  CHECK(reports[0].text == same + "send 4 to 1;group;send 4 to 0;recv 4 from 0;recv 4 from 1;end;");
  CHECK(reports[1].text == same + "recv 4 from 0;group;send 4 to 0;end;");
}

TEST_CASE("a fan_out to several is one group, and its receivers need none") {
  const auto trace = [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    const Stream stream(memory.stream());
    gpu_test::DeviceBuffer buffer(memory, 64);
    const device_span<std::int32_t> one(reinterpret_cast<std::int32_t*>(buffer.data()), 4);
    reinterpret_cast<void (*)()>(nccl_symbol("fake_nccl_clear_trace"))();
    communicator.fan_out(one, 0, {.stream = stream});
    communicator.synchronize(stream);
    return nccl_trace();
  };
  const auto three = run_on_devices(3, {}, trace);
  REQUIRE(errors_of(three) == "");
  CHECK(three[0].text == "group;send 4 to 1;send 4 to 2;end;");
  CHECK(three[1].text == "recv 4 from 0;");
}

TEST_CASE("split communicators have sessions of their own") {
  const auto reports = run_on_devices(4, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    auto half = communicator.split(rank.rank() % 2, -rank.rank());
    auto copy = half->duplicate();
    const auto cases = operation_cases({5}, {1});
    for (auto* const one : {&*half, &copy, &communicator}) {
      const auto wrong = run_cases(*one, cases);
      expect(wrong.empty(), wrong);
    }
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a work orders another stream, outlives its communicator, and may be dropped") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(on_nccl);
    DeviceMemory memory(communicator.device());
    DeviceMemory other(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 4);
    const device_span<std::int32_t> value(reinterpret_cast<std::int32_t*>(buffer.data()), 1);
    buffer.upload({std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}});
    auto work = communicator.start_all_reduce(in_place, value, sum, {.stream = memory.stream()});
    work.wait(Stream(other.stream()));
    std::int32_t result = 0;
    other.copy_to_host(&result, buffer.data(), 4);  // on the other stream
    expect(result == 2, "the stream did not wait");
    expect(work.wait_for(5s), "not done");
    static_cast<void>(
        communicator.start_all_reduce(in_place, value, sum, {.stream = memory.stream()}));
    auto late = communicator.start_all_reduce(in_place, value, sum, {.stream = memory.stream()});
    communicator.synchronize(memory.stream());
    rank.destroy_communicators();
    try {
      late.wait();
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::aborted, error.sentence());
      return "done";
    }
    return "nothing was thrown";
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(reports[0].text == "done");
}

}  // namespace tutti::device::test
