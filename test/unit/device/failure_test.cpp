// Failures in calls on device memory: which ranks report them, and when.
#include <fmt/format.h>

#include <csignal>
#include <thread>

#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

using tutti::test::time_factor;

/// A communicator, a stream and a little device memory.
struct Fixture {
  explicit Fixture(Rank& rank, std::chrono::nanoseconds timeout = 20s)
      : communicator(rank.communicator({.timeout = timeout,
                                        .backend = BackendChoice::nccl,
                                        .log = [](LogLevel, const std::string&) {}})),
        memory(communicator.device()),
        buffer(memory, 4096),
        stream(memory.stream()),
        floats(reinterpret_cast<float*>(buffer.data()), 256) {}

  [[nodiscard]] device_span<float> first(std::size_t count) const { return {floats.data(), count}; }

  Communicator& communicator;
  DeviceMemory memory;
  gpu_test::DeviceBuffer buffer;
  Stream stream;
  device_span<float> floats;
};

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// The error that `action` throws.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::system, "nothing was thrown"};
}

void require_failure(const std::vector<Report>& reports, ErrorCode code,
                     const std::vector<std::string>& words) {
  for (const auto& report : reports) {
    INFO(tutti::test::describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == code);
    for (const auto& each : words) CHECK(contains(report.failure->sentence, each));
  }
}

}  // namespace

TEST_CASE("mismatched calls are reported while the ranks wait, however they wait") {
  struct Difference {
    std::function<void(Fixture&)> first, second;
    std::string first_words, second_words;
  };
  const std::vector<Difference> differences{
      {[](Fixture& d) {
         d.communicator.all_reduce(in_place, d.first(4), sum, {.stream = d.stream});
       },
       [](Fixture& d) { d.communicator.broadcast(d.first(4), 0, {.stream = d.stream}); },
       "all_reduce of 4 f32", "broadcast of 4 f32"},
      {[](Fixture& d) {
         d.communicator.all_reduce(in_place, d.first(4), sum, {.stream = d.stream});
       },
       [](Fixture& d) {
         d.communicator.all_reduce(in_place, d.first(5), sum, {.stream = d.stream});
       },
       "all_reduce of 4 f32", "all_reduce of 5 f32"},
      {[](Fixture& d) {
         d.communicator.reduce(in_place, d.first(4), sum, 0, {.stream = d.stream});
       },
       [](Fixture& d) {
         d.communicator.reduce(in_place, d.first(4), sum, 1, {.stream = d.stream});
       },
       "to rank 0", "to rank 1"},
      {[](Fixture& d) {
         d.communicator.all_reduce(in_place, d.first(4), max, {.stream = d.stream});
       },
       [](Fixture& d) {
         d.communicator.all_reduce(in_place, d.first(4), min, {.stream = d.stream});
       },
       "max", "min"},
  };
  for (const auto& [first, second, first_words, second_words] : differences) {
    const auto reports = run_on_devices(2, {}, [&](Rank& rank) -> std::string {
      Fixture fixture(rank);
      (rank.rank() == 0 ? first : second)(fixture);
      if (rank.rank() == 0) {
        fixture.communicator.synchronize(fixture.stream);
      } else {
        // With CUDA's own function: NCCL's work is aborted all the same, and the next call throws
        // the reason.
        using Synchronize = int (*)(void*);
        reinterpret_cast<Synchronize>(cuda_symbol("cuStreamSynchronize"))(fixture.stream.handle);
      }
      // If the mismatch (of operators) blocks no rank, finalize() detects it.
      fixture.communicator.finalize();
      return "nothing was thrown";
    });
    require_failure(reports, ErrorCode::mismatch, {first_words, second_words});
  }
}

TEST_CASE("an absent rank is named at the deadline, also by Work::wait()") {
  for (const bool by_work : {false, true}) {
    const auto reports = run_on_devices(3, {}, [&](Rank& rank) -> std::string {
      Fixture fixture(rank, 2s);
      fixture.communicator.all_reduce(in_place, fixture.floats, sum, {.stream = fixture.stream});
      fixture.communicator.synchronize(fixture.stream);
      if (rank.rank() == 2) {
        std::this_thread::sleep_for(4s);
        return "away";
      }
      const auto start = std::chrono::steady_clock::now();
      const auto error = error_of([&] {
        if (by_work) {
          fixture.communicator
              .start_all_reduce(in_place, fixture.floats, sum, {.stream = fixture.stream})
              .wait();
        } else {
          fixture.communicator.all_reduce(in_place, fixture.floats, sum,
                                          {.stream = fixture.stream});
          fixture.communicator.synchronize(fixture.stream);
        }
      });
      expect(std::chrono::steady_clock::now() - start < 4s * time_factor(), "too late");
      throw error;
    });
    require_failure({reports[0], reports[1]}, ErrorCode::timeout,
                    {"all_reduce of 256 f32, sum", "rank 2", "outside any call"});
    CHECK(reports[0].failure->failed_ranks == std::vector{2});
  }
}

TEST_CASE("a receive without a send names the sender") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    Fixture fixture(rank, 2s);
    if (rank.rank() == 0) {
      fixture.communicator.recv(fixture.floats, 2, {.stream = fixture.stream});
      fixture.communicator.synchronize(fixture.stream);
    }
    std::this_thread::sleep_for(4s);
    return "away";
  });
  require_failure({reports[0]}, ErrorCode::timeout, {"recv of 256 f32 from rank 2", "rank 2 ("});
  CHECK(reports[0].failure->failed_ranks == std::vector{2});
}

TEST_CASE("wait_for() can time out without harm") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    Fixture fixture(rank);
    if (rank.rank() == 1) std::this_thread::sleep_for(500ms);
    auto work = fixture.communicator.start_all_reduce(in_place, fixture.floats, sum,
                                                      {.stream = fixture.stream});
    if (rank.rank() == 0) {
      expect(!work.test(), "done before the other has come");
      expect(!work.wait_for(100ms), "done before the other has come");
    }
    work.wait();
    expect(work.test(), "not done");
    fixture.communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a call blocked inside NCCL is aborted at its deadline, and the late rank is named") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    Fixture fixture(rank, 2s);
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(5s);
      return "away";
    }
    set("FAKE_NCCL_CALL_BLOCKS", "1");
    const auto start = std::chrono::steady_clock::now();
    const auto error = error_of(
        [&] { fixture.communicator.broadcast(fixture.floats, 0, {.stream = fixture.stream}); });
    const auto took = std::chrono::steady_clock::now() - start;
    expect(took > 1900ms && took < 4s * time_factor(), "too early or too late");
    // Throws the same error again.
    const auto next = error_of(
        [&] { fixture.communicator.broadcast(fixture.floats, 0, {.stream = fixture.stream}); });
    expect(next.sentence() == error.sentence(), "another error: " + next.sentence());
    throw error;
  });
  require_failure({reports[0]}, ErrorCode::timeout, {"broadcast of 256 f32", "rank 1"});
}

TEST_CASE("a call that ends because NCCL was aborted has no result") {
  const SharedSegment segment;
  tutti::test::Job job(2, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    Fixture fixture(rank);
    rank.mark();
    if (rank.rank() == 1) std::this_thread::sleep_for(60s);
    auto work = fixture.communicator.start_all_reduce(in_place, fixture.floats, sum,
                                                      {.stream = fixture.stream});
    rank.mark();
    // The watchdog aborts NCCL meanwhile, and the stream runs empty.
    std::this_thread::sleep_for(3s);
    work.wait();
    return "nothing was thrown";
  });
  job.await_marks_of_all(1);
  job.await_marks(0, 2);
  job.signal(1, SIGKILL);
  const auto reports = job.finish();
  require_failure({reports[0]}, ErrorCode::peer_lost, {"rank 1"});
}

TEST_CASE("a call blocked inside NCCL is aborted when another rank dies") {
  const SharedSegment segment;
  tutti::test::Job job(2, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    Fixture fixture(rank);
    rank.mark();
    if (rank.rank() == 1) std::this_thread::sleep_for(60s);
    set("FAKE_NCCL_CALL_BLOCKS", "1");
    fixture.communicator.broadcast(fixture.floats, 0, {.stream = fixture.stream});
    return "nothing was thrown";
  });
  job.await_marks_of_all(1);
  std::this_thread::sleep_for(300ms);
  const auto killed = job.signal(1, SIGKILL);
  const auto reports = job.finish();
  require_failure({reports[0]}, ErrorCode::peer_lost, {"rank 1"});
  CHECK(reports[0].ended - killed < 5s);
}

TEST_CASE("a rank killed in a loop is named by the others") {
  const SharedSegment segment;
  tutti::test::Job job(3, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    Fixture fixture(rank);
    while (true) {
      fixture.communicator.all_reduce(in_place, fixture.floats, max, {.stream = fixture.stream});
      fixture.communicator.synchronize(fixture.stream);
      rank.mark();
    }
  });
  job.await_marks_of_all(10);
  const auto killed = job.signal(1, SIGKILL);
  const auto reports = job.finish();
  require_failure({reports[0], reports[2]}, ErrorCode::peer_lost, {"rank 1"});
  for (const int survivor : {0, 2}) {
    CHECK(reports[static_cast<std::size_t>(survivor)].ended - killed < 5s);
    CHECK(reports[static_cast<std::size_t>(survivor)].destruction < 2s * time_factor());
  }
}

TEST_CASE("a call done on one stream does not hide another on a second stream") {
  const SharedSegment segment;
  tutti::test::Job job(3, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    Fixture fixture(rank);
    DeviceMemory other(fixture.communicator.device());
    gpu_test::DeviceBuffer second(other, 64);
    const device_span<float> there(reinterpret_cast<float*>(second.data()), 16);
    const Stream stream(other.stream());
    if (rank.rank() == 0)
      fixture.communicator.recv(fixture.first(16), 2, {.stream = fixture.stream});
    if (rank.rank() == 0) fixture.communicator.start_send(there, 1, {.stream = stream}).wait();
    if (rank.rank() == 1) fixture.communicator.start_recv(there, 0, {.stream = stream}).wait();
    rank.mark();
    if (rank.rank() != 0) std::this_thread::sleep_for(20s);
    // With CUDA's own function: only the watchdog can end the wait for rank 2.
    static_cast<void>(fixture.buffer.download());
    fixture.communicator.barrier();
    return "nothing was thrown";
  });
  job.await_marks_of_all(1);
  const auto killed = job.signal(2, SIGKILL);
  job.await_end(0, 10s * time_factor());
  CHECK(std::chrono::steady_clock::now() - killed < 8s * time_factor());
  job.signal(1, SIGKILL);
  const auto reports = job.finish();
  require_failure({reports[0]}, ErrorCode::peer_lost, {"rank 2"});
}

TEST_CASE("an abort that hangs does not block the survivor") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    Fixture fixture(rank, 2s);
    set("FAKE_NCCL_ABORT_HANGS", "1");
    if (rank.rank() == 1) std::this_thread::sleep_for(4s);
    const auto start = std::chrono::steady_clock::now();
    const auto error = error_of([&] {
      fixture.communicator.all_reduce(in_place, fixture.floats, sum, {.stream = fixture.stream});
      fixture.communicator.synchronize(fixture.stream);
    });
    expect(std::chrono::steady_clock::now() - start < 5s * time_factor(), "too late");
    throw error;
  });
  require_failure({reports[0]}, ErrorCode::timeout, {"rank 1"});
}

TEST_CASE("a call that never returns after the abort is reported") {
  const SharedSegment segment;
  tutti::test::Job job(2, [&](Rank& rank) -> std::string {
    set("FAKE_NCCL_SEGMENT", segment.path());
    auto& communicator =
        rank.communicator({.timeout = 1s,
                           .backend = BackendChoice::nccl,
                           .log = [&](LogLevel, const std::string& line) { rank.say(line); }});
    DeviceMemory memory(communicator.device());
    gpu_test::DeviceBuffer buffer(memory, 4);
    if (rank.rank() == 1) std::this_thread::sleep_for(7s * time_factor());
    set("FAKE_NCCL_CALL_BLOCKS", "2");
    communicator.broadcast(device_span<int>(reinterpret_cast<int*>(buffer.data()), 1), 0,
                           {.stream = memory.stream()});
    return "nothing was thrown";
  });
  std::this_thread::sleep_for(6s * time_factor());
  CHECK(contains(job.said(0), "NCCL did not return after ncclCommAbort"));
  CHECK(contains(job.said(0), "broadcast of 1 i32"));
}

TEST_CASE("every result code of NCCL becomes an error on all ranks") {
  for (const int code : {1, 2, 3, 4, 5, 6, 8, 42, 99}) {
    const auto reports = run_on_devices(2, {}, [&](Rank& rank) -> std::string {
      Fixture fixture(rank);
      const bool in_call = code % 2 == 0;
      if (rank.rank() == 1) {
        set(in_call ? "FAKE_NCCL_CALL_RESULT" : "FAKE_NCCL_ASYNC_RESULT", std::to_string(code));
        if (!in_call) set("FAKE_NCCL_CALL_RESULT", "0");
      }
      if (in_call || rank.rank() == 1) {
        fixture.communicator.all_reduce(in_place, fixture.floats, sum, {.stream = fixture.stream});
      }
      if (rank.rank() == 0 && !in_call) {
        // Makes the other rank wait.
        fixture.communicator.barrier({.timeout = 10s});
      }
      fixture.communicator.synchronize(fixture.stream);
      return "nothing was thrown";
    });
    require_failure(reports, ErrorCode::system, {"rank 1", fmt::format("{}", code)});
    CHECK(reports[0].failure->sentence == reports[1].failure->sentence);
  }
}

TEST_CASE("unsupported calls are refused before anything is sent") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    Fixture fixture(rank);
    auto& communicator = fixture.communicator;
    const auto refused = [&](const std::string& words, const auto& action) {
      const auto error = error_of(action);
      expect(error.code() == ErrorCode::usage && contains(error.sentence(), words),
             "not refused as it should: " + error.sentence());
    };
    int on_host = 0;
    const device_span<int> host(&on_host, 1);
    refused("plain host memory",
            [&] { communicator.broadcast(host, 0, {.stream = fixture.stream}); });
    refused("plain host memory",
            [&] { communicator.send(host, 1 - rank.rank(), {.stream = fixture.stream}); });
    {
      DeviceMemory elsewhere(3);
      gpu_test::DeviceBuffer theirs(elsewhere, 4);
      refused("memory of device 3", [&] {
        communicator.broadcast(device_span<int>(reinterpret_cast<int*>(theirs.data()), 1), 0,
                               {.stream = fixture.stream});
      });
    }
    const device_span<int> ints(reinterpret_cast<int*>(fixture.buffer.data()), 4);
    refused("all_reduce of i32 by bit_xor",
            [&] { communicator.all_reduce(in_place, ints, bit_xor, {.stream = fixture.stream}); });
    refused("no tag",
            [&] { communicator.broadcast(ints, 0, {.tag = 1, .stream = fixture.stream}); });
    refused("no algorithm", [&] {
      communicator.broadcast(ints, 0, {.algorithm = "ring", .stream = fixture.stream});
    });
    communicator.all_reduce(in_place, ints, sum, {.stream = fixture.stream});
    communicator.synchronize(fixture.stream);
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("8-bit floats: moved by any NCCL, reduced from 2.24 on") {
  const auto reports =
      run_on_devices(2, {{"FAKE_NCCL_VERSION", "22304"}}, [](Rank& rank) -> std::string {
        Fixture fixture(rank);
        for (const auto operation : {Operation::broadcast, Operation::all_gather}) {
          const auto wrong =
              gpu_test::check(fixture.communicator, fixture.memory,
                              {.operation = operation, .type = Type::f8e4m3, .count = 100}, 1);
          expect(wrong.empty(), wrong);
        }
        const device_span<float8_e5m2> values(reinterpret_cast<float8_e5m2*>(fixture.buffer.data()),
                                              4);
        return error_of([&] {
                 fixture.communicator.all_reduce(in_place, values, sum, {.stream = fixture.stream});
               })
            .sentence();
      });
  REQUIRE(errors_of(reports) == "");
  CHECK(contains(reports[0].text,
                 "all_reduce of f8e5m2 needs NCCL 2.24.0 or later, and this is "
                 "2.23.4"));
}

}  // namespace tutti::device::test
