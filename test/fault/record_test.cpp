// TUTTI_RECORD: each rank writes its latest calls to a file, after an error or on SIGUSR1.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-record-XXXXXX").string();
    expect(::mkdtemp(name.data()) != nullptr, "no folder for the test");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

std::string record_of(const Folder& folder, const Job& job, int rank) {
  const std::ifstream file(folder.path / fmt::format("rank{}-pid{}.json", rank, job.pid(rank)));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("after a loss each survivor has written its latest calls") {
  const Folder folder;
  Job job(3, [&](Rank& rank) -> std::string {
    ::setenv("TUTTI_RECORD", folder.path.c_str(), 1);
    reduce_forever(rank, 1000);
  });
  job.await_marks_of_all(3);
  job.signal(1, SIGKILL);
  job.finish();
  CHECK(record_of(folder, job, 1).empty());
  for (const int rank : {0, 2}) {
    const auto text = record_of(folder, job, rank);
    CAPTURE(rank, text);
    CHECK(has(text, "\"call\": \"all_reduce of 1000 f32, sum\""));
    CHECK(has(text, "\"bytes\": 4000"));
    CHECK(has(text, "\"end_us\": null"));
    CHECK(has(text, "a rank is lost: rank 1 "));
    CHECK(has(text, fmt::format("\"rank\": {}", rank)));
  }
}

TEST_CASE("on SIGUSR1 a rank writes the ranks that it waits for, and continues") {
  const Folder folder;
  Job job(3, [&](Rank& rank) -> std::string {
    ::setenv("TUTTI_RECORD", folder.path.c_str(), 1);
    auto& communicator = rank.communicator({.timeout = 20s});
    communicator.barrier();
    rank.mark();
    std::vector<float> data(10);
    if (rank.rank() == 1) {
      rank.wait_for_release();
      communicator.send(std::span(data), 0);
    }
    if (rank.rank() == 0) communicator.recv(std::span(data), 1);
    communicator.finalize();
    return "done";
  });
  job.await_marks_of_all(1);
  std::this_thread::sleep_for(500ms);
  for (const int rank : {0, 1}) job.signal(rank, SIGUSR1);
  const auto limit = Clock::now() + 5s * time_factor();
  while ((record_of(folder, job, 0).empty() || record_of(folder, job, 1).empty()) &&
         Clock::now() < limit) {
    std::this_thread::sleep_for(10ms);
  }
  const auto text = record_of(folder, job, 0);
  CAPTURE(text);
  CHECK(has(text, "recv of 10 f32 from rank 1"));
  CHECK(has(text, "\"awaited\": [\n      1\n     ]"));
  CHECK(has(text, "requested by SIGUSR1"));
  CHECK(!has(record_of(folder, job, 1), "\"end_us\": null"));
  CHECK(record_of(folder, job, 2).empty());
  job.release();
  CHECK(errors_of(job.finish()) == "");
}

TEST_CASE(
    "the program's own handler of SIGUSR1 stays, and without TUTTI_RECORD nothing is touched") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    struct Caught {
      static void on_signal(int) {}
    };
    std::signal(SIGUSR1, Caught::on_signal);
    ::setenv("TUTTI_RECORD", "/nonexistent/folder", 1);
    auto& communicator = rank.communicator();
    struct sigaction now {};
    ::sigaction(SIGUSR1, nullptr, &now);
    expect(now.sa_handler == Caught::on_signal, "the handler was replaced");
    ::unsetenv("TUTTI_RECORD");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
  const auto others = run_ranks(2, [](Rank& rank) -> std::string {
    std::vector<void (*)(int)> before;
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      ::sigaction(number, nullptr, &action);
      before.push_back(action.sa_handler);
    }
    auto& communicator = rank.communicator();
    communicator.barrier();
    communicator.finalize();
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      ::sigaction(number, nullptr, &action);
      expect(action.sa_handler == before[static_cast<std::size_t>(number - 1)],
             fmt::format("the handler of signal {} has changed", number));
    }
    sigset_t blocked;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
    for (int number = 1; number < 32; ++number) {
      expect(::sigismember(&blocked, number) == 0, fmt::format("signal {} is blocked", number));
    }
    return "done";
  });
  CHECK(errors_of(others) == "");
}

}  // namespace tutti::test
