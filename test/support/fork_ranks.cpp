#include "support/fork_ranks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/bytes.hpp"
#include "support/fork_board.hpp"
#include "support/sanitized.hpp"

namespace tutti::test {
namespace {

std::int64_t now_ns() {
  return Clock::now().time_since_epoch().count();
}

Clock::time_point time_of(std::int64_t ns) {
  return Clock::time_point(Clock::duration(ns));
}

}  // namespace

int time_factor() {
  constexpr int for_sanitizer =
      is_sanitized ? 4 : 1;  // sanitizers slow programs down by such a factor
  const char* const ci = std::getenv("CI");
  return (ci != nullptr && std::string(ci) == "true" ? 3 : 1) * for_sanitizer;
}

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

// ---- the rank's side

Communicator& Rank::communicator(const Options& options) {
  return communicators_.emplace_back(Communicator::create(bootstrap_, options));
}

void Rank::mark() {
  board_.cell(rank()).marks.fetch_add(1, std::memory_order_release);
}

void Rank::stamp() {
  board_.cell(rank()).stamp.store(now_ns(), std::memory_order_release);
}

void Rank::say(const std::string& text) {
  auto& cell = board_.cell(rank());
  expect(text.size() <= said_space, "a rank says more than the test has room for");
  std::copy(text.begin(), text.end(), cell.said.begin());
  cell.said_length.store(static_cast<std::uint32_t>(text.size()), std::memory_order_release);
}

bool Rank::is_released() const {
  return board_.go.load(std::memory_order_acquire);
}

void Rank::wait_for_release() const {
  while (!is_released()) std::this_thread::sleep_for(1ms);
}

namespace {

void put_text(ByteWriter& writer, const std::string& text) {
  writer.put_string(std::string_view(text).substr(0, 16384));
}

Bytes encode(const Report& report) {
  ByteWriter writer;
  put_text(writer, report.text);
  put_text(writer, report.other_error);
  writer.put(static_cast<std::uint64_t>(report.destruction.count()));
  writer.put(static_cast<std::uint8_t>(report.failure.has_value()));
  if (report.failure) {
    const auto& failure = *report.failure;
    writer.put(static_cast<std::uint8_t>(failure.code))
        .put(static_cast<std::uint8_t>(failure.speaks));
    put_text(writer, failure.sentence);
    put_text(writer, failure.operation);
    writer.put(static_cast<std::uint32_t>(failure.failed_ranks.size()));
    for (const int failed_rank : failure.failed_ranks)
      writer.put(static_cast<std::uint32_t>(failed_rank));
  }
  return std::move(writer).bytes();
}

void decode_into(Report& report, std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  report.text = reader.get_string();
  report.other_error = reader.get_string();
  report.destruction = Clock::duration(static_cast<std::int64_t>(reader.get<std::uint64_t>()));
  if (reader.get<std::uint8_t>() == 0) return;
  Failure failure;
  failure.code = static_cast<ErrorCode>(reader.get<std::uint8_t>());
  failure.speaks = reader.get<std::uint8_t>() != 0;
  failure.sentence = reader.get_string();
  failure.operation = reader.get_string();
  const auto failed_ranks = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < failed_ranks && reader.ok(); ++i) {
    failure.failed_ranks.push_back(static_cast<int>(reader.get<std::uint32_t>()));
  }
  report.failure = std::move(failure);
}

/// Runs a child process.
[[noreturn]] void run_child(Board& board, int number, pid_t parent, const Body& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // Catch's handlers would report a crash of the child as one of the test program.
  for (const int signal : {SIGINT, SIGTERM, SIGFPE, SIGILL, SIGABRT, SIGSEGV, SIGBUS}) {
    std::signal(signal, SIG_DFL);
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);

  Report report;
  auto& cell = board.cell(number);
  Rank rank(board, number);
  try {
    report.text = body(rank);
  } catch (const Error& error) {
    report.failure = Failure{.code = error.code(),
                             .sentence = error.sentence(),
                             .failed_ranks = error.failed_ranks(),
                             .speaks = error.speaks_for_job(),
                             .operation = error.operation()};
  } catch (const std::exception& error) {
    report.other_error = error.what();
  }
  cell.ended.store(now_ns());
  const auto begin = Clock::now();
  rank.destroy_communicators();
  report.destruction = Clock::now() - begin;
  const auto bytes = encode(report);
  std::copy(bytes.begin(), bytes.end(), cell.report.begin());
  cell.report_length.store(static_cast<std::uint32_t>(bytes.size()), std::memory_order_release);
  std::fflush(nullptr);
  ::_exit(0);
}

Board* make_board(int size) {
  void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory for the test");
  auto* const board = static_cast<Board*>(memory);  // all members start as zero
  board->size = size;
  return board;
}

}  // namespace

namespace {

/// With TUTTI_TEST_HOSTS=N, ranks 0 and 1 are on one host, 2 and 3 on the next, and so on, as far
/// as tutti can tell; after the last host comes the first again.
void set_host(int rank) {
  const auto* const hosts = std::getenv("TUTTI_TEST_HOSTS");
  if (hosts == nullptr) return;
  ::setenv("TUTTI_HOST_ID", fmt::format("host{}", rank / 2 % std::atoi(hosts)).c_str(), 1);
}

}  // namespace

// ---- the parent's side

Job::Job(int size, const Body& body)
    : board_(make_board(size), [](Board* board) { ::munmap(board, sizeof(Board)); }) {
  expect(size >= 1 && size <= max_ranks, fmt::format("a test job has 1 to {} ranks", max_ranks));
  std::fflush(nullptr);  // else each child would print buffered output again
  const auto parent = ::getpid();
  processes_.resize(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const auto pid = ::fork();
    if (pid == 0) {
      set_host(rank);
      run_child(*board_, rank, parent, body);
    }
    if (pid < 0) {
      kill_rest();
      throw std::runtime_error("fork failed");
    }
    processes_[static_cast<std::size_t>(rank)].pid = pid;
  }
}

Job::~Job() {
  kill_rest();
}

pid_t Job::pid(int rank) const {
  return processes_.at(static_cast<std::size_t>(rank)).pid;
}

std::uint64_t Job::marks(int rank) const {
  return board_->cell(rank).marks.load(std::memory_order_acquire);
}

void Job::await_marks(int rank, std::uint64_t wanted, Clock::duration limit) {
  const auto end = Clock::now() + limit * time_factor();
  while (marks(rank) < wanted) {
    reap();
    const auto& process = processes_.at(static_cast<std::size_t>(rank));
    if (process.over || Clock::now() > end) {
      const bool is_over = process.over;
      throw std::runtime_error(fmt::format("rank {} {} after {} steps where {} were due: {}", rank,
                                           is_over ? "has ended" : "is stuck", marks(rank), wanted,
                                           describe(finish(0s))));
    }
    std::this_thread::sleep_for(500us);
  }
}

void Job::await_marks_of_all(std::uint64_t wanted, Clock::duration limit) {
  for (int rank = 0; rank < size(); ++rank) await_marks(rank, wanted, limit);
}

void Job::await_end(int rank, Clock::duration limit) {
  const auto end = Clock::now() + limit * time_factor();
  for (reap(); !processes_.at(static_cast<std::size_t>(rank)).over; reap()) {
    if (Clock::now() > end) {
      throw std::runtime_error(fmt::format("rank {} does not end: {}", rank, describe(finish(0s))));
    }
    std::this_thread::sleep_for(500us);
  }
}

Clock::time_point Job::stamped(int rank) const {
  return time_of(board_->cell(rank).stamp.load(std::memory_order_acquire));
}

std::string Job::said(int rank) const {
  const auto& cell = board_->cell(rank);
  return {cell.said.data(), cell.said_length.load(std::memory_order_acquire)};
}

void Job::release() {
  board_->go.store(true, std::memory_order_release);
}

Clock::time_point Job::signal(int rank, int number) const {
  const auto& process = processes_.at(static_cast<std::size_t>(rank));
  expect(!process.over, fmt::format("rank {} has ended before it was to get a signal", rank));
  const auto now = Clock::now();
  ::kill(process.pid, number);
  return now;
}

void Job::reap() {
  for (auto& process : processes_) {
    if (process.over || process.pid < 0) continue;
    process.over = ::waitpid(process.pid, &process.status, WNOHANG) == process.pid;
  }
}

void Job::kill_rest() {
  for (auto& process : processes_) {
    if (process.over || process.pid < 0) continue;
    ::kill(process.pid, SIGKILL);
    process.hung = true;
    process.over = ::waitpid(process.pid, &process.status, 0) == process.pid;
  }
}

std::vector<Report> Job::finish(Clock::duration limit) {
  const auto end = Clock::now() + limit * time_factor();
  const auto is_over = [](const Process& process) { return process.over; };
  while (true) {
    reap();
    if (std::all_of(processes_.begin(), processes_.end(), is_over)) break;
    if (Clock::now() > end) {
      kill_rest();
      break;
    }
    std::this_thread::sleep_for(500us);
  }
  std::vector<Report> reports;
  for (int rank = 0; rank < size(); ++rank) {
    const auto& process = processes_[static_cast<std::size_t>(rank)];
    const auto& cell = board_->cell(rank);
    Report report{.hung = process.hung, .status = process.status};
    report.ended = time_of(cell.ended.load());
    if (const auto length = cell.report_length.load(std::memory_order_acquire); length > 0) {
      report.finished = true;
      decode_into(report, std::span(cell.report).first(length));
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<Report> run_ranks(int size, const Body& body, Clock::duration limit) {
  Job job(size, body);
  return job.finish(limit);
}

namespace {

std::string describe(const Report& report) {
  if (report.failure) {
    const auto& failure = *report.failure;
    return fmt::format("threw {} {}{}: {} [in {}; destroyed in {:.3f} s]", name(failure.code),
                       failure.failed_ranks, failure.speaks ? " (speaks)" : "", failure.sentence,
                       failure.operation, seconds(report.destruction));
  }
  if (!report.other_error.empty()) return "complains: " + report.other_error;
  if (report.finished) return "returned: " + report.text;
  if (report.hung) {
    return "hung and was killed" + std::string(report.ended == Clock::time_point{}
                                                   ? ""
                                                   : " in the communicator's destructor");
  }
  if (WIFSIGNALED(report.status)) return fmt::format("died of signal {}", WTERMSIG(report.status));
  return fmt::format("ended with status {}", WEXITSTATUS(report.status));
}

}  // namespace

std::string describe(const std::vector<Report>& reports) {
  std::string text;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    text += fmt::format("\nrank {} {}", rank, describe(reports[rank]));
  }
  return text;
}

std::string errors_of(const std::vector<Report>& reports) {
  const auto is_well = [](const Report& report) {
    return report.finished && !report.failure && report.other_error.empty();
  };
  return std::all_of(reports.begin(), reports.end(), is_well) ? std::string() : describe(reports);
}

}  // namespace tutti::test
