#include "job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/environment.hpp"
#include "launch/place.hpp"
#ifdef TUTTI_HAS_MPI
#include "tutti/mpi.hpp"
#endif

namespace tutti::app {
namespace {

// A launcher ends all ranks when one fails: the others wait until the one that speaks has been
// heard.
constexpr std::chrono::milliseconds silence_of_others{300};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

int status_of(const Error& error) {
  return error.code() == ErrorCode::usage ? 2 : 1;
}

void print_error(const std::string& sentence) {
  const auto line = fmt::format("tutti: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

struct Job::Mpi {
#ifdef TUTTI_HAS_MPI
  MpiSession session;
#endif
};

Job::Job() = default;
Job::~Job() = default;

void Job::start(const OperationOptions& options) {
  Options settings;
  if (options.timeout.count() > 0) settings.timeout = options.timeout;
  if (options.verbose) settings.log_level = LogLevel::info;
  settings.backend = options.backend;

  open(settings);
  if (communicator_->has_device_path()) {
    device_memory_ = std::make_unique<device::DeviceMemory>(communicator_->device());
  }
}

void Job::open(const Options& settings) {
  if (!launch::started_by_mpi_launcher(current_environment())) {
    AloneBootstrap alone;
    communicator_ = std::make_unique<Communicator>(Communicator::create(alone, settings));
    source_ = alone.source();
    phases_ = communicator_->setup_phases();
    return;
  }
#ifdef TUTTI_HAS_MPI
  const auto begin = Clock::now();
  mpi_ = std::make_unique<Mpi>();
  const auto mpi_time = milliseconds_since(begin);
  MpiBootstrap bootstrap(MPI_COMM_WORLD, Deadline::after(setup_timeout(settings)));
  source_ = bootstrap.source();
  communicator_ = std::make_unique<Communicator>(Communicator::create(bootstrap, settings));
  phases_ = fmt::format("MPI_Init {:.1f} ms, {}", mpi_time, communicator_->setup_phases());
#else
  throw Error(
      ErrorCode::usage,
      "an MPI launcher started this process, but this tutti was built without MPI: build it "
      "with -Dmpi=enabled");
#endif
}

void Job::run(const std::function<void(Stream)>& on_device, const std::function<void()>& on_host) {
  if (!device_memory_) return on_host();
  on_device(device_memory_->stream());
  communicator_->synchronize(device_memory_->stream());
}

std::string Job::phases() const {
  return phases_;
}

void Job::finish() {
  communicator_->finalize();
  communicator_.reset();
  device_memory_.reset();
}

void Job::give_up(const Error& error) noexcept {
  const bool only_here = error.code() == ErrorCode::usage || error.code() == ErrorCode::system;
  if (communicator_ && only_here) communicator_->abort(error.sentence());
}

int run_job(const OperationOptions& options, const std::function<int(Job&)>& body) {
  Job job;
  int status = 1;
  std::string sentence;
  bool speaks = true;
  try {
    job.start(options);
    return body(job);
  } catch (const Error& error) {
    status = status_of(error);
    sentence = error.sentence();
    if (!error.operation().empty() &&
        error.sentence().find(error.operation()) == std::string::npos) {
      sentence += fmt::format(" (in {}, call {})", error.operation(), error.sequence());
    }
    // A usage error is the same on all ranks, and before set-up is done nobody knows who else is
    // there.
    const bool everywhere = error.code() == ErrorCode::usage || !job.started();
    speaks = everywhere ? launched_rank() == 0 : error.speaks_for_job();
    job.give_up(error);
  } catch (const std::exception& error) {
    sentence = fmt::format("unexpected error on rank {}: {}", launched_rank(), error.what());
    job.give_up(Error(ErrorCode::system, sentence));
  }
  if (speaks || options.verbose) print_error(sentence);
  if (!speaks) std::this_thread::sleep_for(silence_of_others);
  std::fflush(nullptr);
  // Without MPI_Finalize, which would wait for ranks that never come.
  ::_exit(status);
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& mine) {
  std::vector<std::string> texts;
  std::uint64_t length = mine.size();
  if (communicator.rank() != 0) {
    communicator.send(std::span<const std::uint64_t>(&length, 1), 0);
    communicator.send(std::span<const char>(mine), 0);
    return texts;
  }
  texts.push_back(mine);
  for (int rank = 1; rank < communicator.size(); ++rank) {
    communicator.recv(std::span<std::uint64_t>(&length, 1), rank);
    std::string text(length, '\0');
    communicator.recv(std::span<char>(text), rank);
    texts.push_back(std::move(text));
  }
  return texts;
}

int launched_rank() {
  constexpr std::array<const char*, 3> variables{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  for (const auto* variable : variables) {
    if (const char* value = std::getenv(variable)) return std::atoi(value);
  }
  return 0;
}

}  // namespace tutti::app
