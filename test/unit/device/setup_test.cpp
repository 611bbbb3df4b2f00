// Set-up of the device backend, its failures, and its end.
#include <csignal>

#include <algorithm>
#include <array>
#include <thread>
#include <tuple>

#include "fake_ranks.hpp"
#include "gpu/cases.hpp"
#include "support/catch.hpp"
#include "support/refused_threads.hpp"

namespace tutti::device::test {
namespace {

/// Sums 1 over all ranks in device memory; throws if the result is wrong.
void use(Communicator& communicator) {
  DeviceMemory memory(communicator.device());
  const auto wrong = gpu_test::check(communicator, memory, {.count = 5}, 1);
  expect(wrong.empty(), wrong);
}

void use_host(Communicator& communicator) {
  std::vector<int> values{1};
  communicator.all_reduce(in_place, std::span(values), sum);
  expect(values[0] == communicator.size(), "the host path is wrong");
}

Options quiet(BackendChoice backend, std::chrono::nanoseconds timeout = 20s) {
  return {.timeout = timeout, .backend = backend, .log = [](LogLevel, const std::string&) {}};
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// Every rank threw the same message, which contains these words.
void require_same_failure(const std::vector<Report>& reports, ErrorCode code,
                          const std::string& words) {
  int speakers = 0;
  for (const auto& report : reports) {
    INFO(tutti::test::describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == code);
    CHECK(report.failure->sentence == reports[0].failure->sentence);
    CHECK(contains(report.failure->sentence, words));
    if (report.failure->speaks) ++speakers;
  }
  CHECK((speakers == 1 || code == ErrorCode::usage));
}

}  // namespace

TEST_CASE("the root can't create the id: the same error on all ranks, or staging on all") {
  const Body insisting = [](Rank& rank) -> std::string {
    if (rank.rank() == 0) set("FAKE_NCCL_ID_RESULT", "2");
    rank.communicator(quiet(BackendChoice::nccl));
    return "nothing was thrown";
  };
  require_same_failure(run_on_devices(3, {}, insisting), ErrorCode::system,
                       "can't create the NCCL unique id: NCCL: system error (2)");

  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 0) set("FAKE_NCCL_ID_RESULT", "2");
    auto& communicator = rank.communicator(quiet(BackendChoice::automatic));
    use(communicator);
    use_host(communicator);
    return communicator.device_path_reason();
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(contains(reports[2].text, "unique id"));
  CHECK(contains(reports[2].text, "staged"));
}

TEST_CASE("a program chooses the device of its rank") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    auto options = quiet(BackendChoice::nccl);
    options.device = 2 - rank.rank();
    auto& communicator = rank.communicator(options);
    use(communicator);
    return std::to_string(communicator.device());
  });
  REQUIRE(errors_of(reports) == "");
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(reports[static_cast<std::size_t>(rank)].text == std::to_string(2 - rank));
  }

  for (const int index : {-1, 4}) {
    const Body out_of_range = [index](Rank& rank) -> std::string {
      auto options = quiet(BackendChoice::automatic);
      options.device = rank.rank() == 1 ? index : rank.rank();
      rank.communicator(options);
      return "nothing was thrown";
    };
    require_same_failure(
        run_on_devices(3, {}, out_of_range), ErrorCode::usage,
        "Options::device is " + std::to_string(index) +
            ", and this process sees 4 devices: pass an index from 0 to 3, or none");
  }
}

TEST_CASE("the id uses the bootstrap's broadcast, and only if NCCL is used") {
  // 1 the secret, 2 the peer info, 3 the barrier, 4 the id.
  const auto exchanges = [](const std::string& without, BackendChoice backend) {
    return run_on_devices(3, {}, [=](Rank& rank) -> std::string {
      if (!without.empty() && rank.rank() == 1) set(without, "");
      int count = 0;
      rank.bootstrap().after = [&](int number) { count = number; };
      auto& communicator = rank.communicator(quiet(backend));
      const auto message = rank.bootstrap().latest_broadcast();
      use_host(communicator);
      std::string made;
      if (communicator.has_device_path() && !communicator.is_device_path_staged()) {
        use(communicator);
        // In a split communicator the id uses the host path: the bootstrap is closed by then.
        auto part = communicator.split(0);
        use(*part);
        // The fake NCCL counts its ids from 1.
        const std::array one{std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}};
        const auto found = std::search(message.end() - 128, message.end(), one.begin(), one.end());
        made = found == message.end() - 128 ? ", the last one an id" : ", no id";
      }
      return std::to_string(count) + made;
    });
  };
  for (const auto& [without, backend, expected] :
       {std::tuple("", BackendChoice::automatic, "4, the last one an id"),
        std::tuple("", BackendChoice::host, "3"),
        std::tuple("CUDA_VISIBLE_DEVICES", BackendChoice::automatic, "3")}) {
    const auto reports = exchanges(without, backend);
    REQUIRE(errors_of(reports) == "");
    for (const auto& report : reports) CHECK(report.text == expected);
  }
}

TEST_CASE("an id that is never created: an error after the deadline, or staging") {
  const Body body = [](Rank& rank) -> std::string {
    if (rank.rank() == 0) set("FAKE_NCCL_ID_HANGS", "1");
    rank.communicator(quiet(BackendChoice::nccl, 2s));
    return "nothing was thrown";
  };
  const auto failed = run_on_devices(3, {}, body);
  require_same_failure(failed, ErrorCode::system, "creating the NCCL unique id timed out");
  CHECK(failed[2].failure->failed_ranks == std::vector{0});

  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 0) set("FAKE_NCCL_ID_HANGS", "1");
    auto& communicator = rank.communicator(quiet(BackendChoice::automatic, 2s));
    use(communicator);
    use_host(communicator);
    communicator.finalize();
    return communicator.device_path_reason();
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(contains(reports[1].text, "timed out"));
}

TEST_CASE("a rank that dies before the id's broadcast is named by the others") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 2) {
      rank.bootstrap().before = [](int number) {
        if (number == 4) ::raise(SIGKILL);
      };
    }
    rank.communicator(quiet(BackendChoice::automatic, 3s));
    return "nothing was thrown";
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    INFO(tutti::test::describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::peer_lost);
    CHECK(report.failure->failed_ranks == std::vector{2});
  }
}

TEST_CASE("a rank whose NCCL or CUDA context fails is named by all") {
  for (const std::string code : {"1", "5", "6", "42"}) {
    const auto reports = run_on_devices(3, {}, [&](Rank& rank) -> std::string {
      if (rank.rank() == 1) set("FAKE_NCCL_INIT_RESULT", code);
      rank.communicator(quiet(BackendChoice::nccl));
      return "nothing was thrown";
    });
    require_same_failure(reports, ErrorCode::system, "NCCL's set-up failed: NCCL: ");
    CHECK(reports[0].failure->failed_ranks == std::vector{1});
    CHECK(contains(reports[0].failure->sentence, code));
  }
  const Body no_context = [](Rank& rank) -> std::string {
    if (rank.rank() == 2) set("FAKE_GPU_CONTEXT_FAILS", "1");
    rank.communicator(quiet(BackendChoice::nccl));
    return "nothing was thrown";
  };
  require_same_failure(run_on_devices(3, {}, no_context), ErrorCode::system, "out of memory (2)");

  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 2) set("FAKE_GPU_CONTEXT_FAILS", "1");
    auto& communicator = rank.communicator(quiet(BackendChoice::automatic));
    use_host(communicator);
    return communicator.has_device_path() ? "a device path" : communicator.device_path_reason();
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(contains(reports[0].text, "rank 2"));
  CHECK(contains(reports[0].text, "out of memory (2)"));
}

TEST_CASE("a rank that can start no thread for NCCL is named by all, or all stage") {
  if (!tutti::test::can_refuse_threads()) return;
  // 2 the peer info, after the control thread has started; 4 the id, right before NCCL's own
  // set-up.
  for (const auto& [number, purpose] : {std::tuple(2, "to watch NCCL"), {4, "to call NCCL"}}) {
    CAPTURE(purpose);
    const auto without_thread = [number = number](Rank& rank) {
      rank.bootstrap().after = [&rank, number](int over) {
        if (rank.rank() == 1 && over == number) tutti::test::refuse_threads();
      };
    };
    const auto words = std::string("can't start a thread ") + purpose;
    const auto failed = run_on_devices(3, {}, [&](Rank& rank) -> std::string {
      without_thread(rank);
      rank.communicator(quiet(BackendChoice::nccl));
      return "nothing was thrown";
    });
    require_same_failure(failed, ErrorCode::system, words);
    CHECK(failed[2].failure->failed_ranks == std::vector{1});

    const auto reports = run_on_devices(3, {}, [&](Rank& rank) -> std::string {
      without_thread(rank);
      auto& communicator = rank.communicator(quiet(BackendChoice::automatic));
      // The fake driver's streams are threads, so nothing is queued here.
      use_host(communicator);
      communicator.finalize();
      return communicator.device_path_reason();
    });
    REQUIRE(errors_of(reports) == "");
    for (const auto& report : reports) {
      CHECK(contains(report.text, "rank 1 ("));
      CHECK(contains(report.text, words));
      CHECK(contains(report.text, "staged"));
    }
  }
}

TEST_CASE("set-up that never ends on a rank: an error after the deadline, or staging") {
  const Body body = [](Rank& rank) -> std::string {
    if (rank.rank() == 1) set("FAKE_NCCL_INIT_HANGS", "1");
    const auto start = std::chrono::steady_clock::now();
    try {
      rank.communicator(quiet(BackendChoice::nccl, 2s));
    } catch (const Error& error) {
      const auto took = std::chrono::steady_clock::now() - start;
      expect(took >= 1900ms && took < 4s * tutti::test::time_factor(), "too early or too late");
      throw;
    }
    return "nothing was thrown";
  };
  require_same_failure(run_on_devices(2, {}, body), ErrorCode::system, "NCCL's set-up timed out");

  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 1) set("FAKE_NCCL_INIT_HANGS", "1");
    auto& communicator = rank.communicator(quiet(BackendChoice::automatic, 2s));
    use(communicator);
    use_host(communicator);
    communicator.finalize();
    return communicator.device_path_reason();
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(contains(reports[0].text, "timed out"));
}

TEST_CASE("a rank absent from set-up is named soon after the deadline") {
  const auto reports = run_on_devices(3, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 2) {
      // Leaves the exchange of peer info with the others, then makes no further call.
      rank.bootstrap().after = [](int number) {
        if (number == 3) std::this_thread::sleep_for(6s);
      };
    }
    const auto start = std::chrono::steady_clock::now();
    try {
      rank.communicator(quiet(BackendChoice::nccl, 2s));
    } catch (const Error& error) {
      const auto took = std::chrono::steady_clock::now() - start;
      expect(rank.rank() == 2 || took < 4s * tutti::test::time_factor(), "too late");
      throw;
    }
    return "nothing was thrown";
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    INFO(tutti::test::describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::timeout);
    CHECK(contains(report.failure->sentence, "rank 2"));
  }
}

TEST_CASE("device of each rank, and the reason of all ranks if NCCL can't be used") {
  const Body insisting = [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(quiet(BackendChoice::nccl));
    use(communicator);
    return communicator.info(rank.rank()).device;
  };
  const Body own_device = [&](Rank& rank) {
    set("CUDA_VISIBLE_DEVICES", std::to_string(3 - rank.rank()));
    return insisting(rank);
  };
  const auto reports = run_on_devices(4, {}, own_device);
  REQUIRE(errors_of(reports) == "");
  CHECK(reports[0].text == "Fake GPU, 0000:04:00.0");
  CHECK(reports[3].text == "Fake GPU, 0000:01:00.0");

  require_same_failure(run_on_devices(5, {}, insisting), ErrorCode::usage,
                       "5 local ranks, 4 devices");
  require_same_failure(run_on_devices(2, {{"CUDA_VISIBLE_DEVICES", "2"}}, insisting),
                       ErrorCode::usage, "share Fake GPU (0000:03:00.0)");
  const Body one_without = [&](Rank& rank) {
    if (rank.rank() == 1) set("CUDA_VISIBLE_DEVICES", "");
    return insisting(rank);
  };
  require_same_failure(run_on_devices(2, {}, one_without), ErrorCode::usage,
                       "no CUDA-capable device is detected");
}

TEST_CASE("without devices on all ranks no rank has a backend for device memory") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    if (rank.rank() == 1) set("CUDA_VISIBLE_DEVICES", "");
    auto& communicator = rank.communicator(quiet(BackendChoice::automatic));
    use_host(communicator);
    expect(!communicator.has_device_path(), "there is one");
    int value = 0;
    try {
      communicator.broadcast(device_span<int>(&value, 1), 0, {.stream = Stream()});
    } catch (const Error& error) {
      expect(error.code() == ErrorCode::usage, "another error");
      return error.sentence();
    }
    return "nothing was thrown";
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(contains(reports[0].text, "rank 1"));
}

TEST_CASE("two communicators in a row have ids of their own, and end by finalize and destroy") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    for (int i = 0; i < 2; ++i) {
      use(rank.communicator(quiet(BackendChoice::nccl)));
      rank.destroy_communicators();
    }
    return nccl_trace();
  });
  REQUIRE(errors_of(reports) == "");
  const auto rest = [](int rank) {
    return "init 2 " + std::to_string(rank) + ";all_reduce 5;finalize;destroy;";
  };
  CHECK(reports[0].text == "id 1;" + rest(0) + "id 2;" + rest(0));
  CHECK(reports[1].text == rest(1) + rest(1));
}

TEST_CASE("host memory only: devices are not queried") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator(quiet(BackendChoice::host));
    use_host(communicator);
    return communicator.device_path_reason();
  });
  REQUIRE(errors_of(reports) == "");
  CHECK(reports[0].text == "asked for");
}

}  // namespace tutti::device::test
