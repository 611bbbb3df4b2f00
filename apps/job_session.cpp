#include "job_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/environment.hpp"
#include "base/quiet_thread.hpp"
#include "device/prewarm.hpp"
#include "launch/resolve.hpp"
#include "output.hpp"
#include "store/open.hpp"
#include "text.hpp"
#ifdef TUTTI_HAS_MPI
#include "tutti/mpi.hpp"
#endif

namespace tutti::app {
namespace {

// A launcher ends all ranks when one exits with an error. If set-up fails, the other ranks wait
// until the reporting rank has printed the error: it may first wait half a second for goodbyes.
constexpr std::chrono::milliseconds reporter_head_start{800};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// NCCL's destruction may take long. The process exits without it after this limit.
constexpr std::chrono::seconds exit_limit{1};

/// A launcher that sees one rank die sends SIGTERM to the others at once. This gives them a second
/// to agree on the failed rank and to report it. A second SIGTERM ends the process.
void delay_sigterm() {
  struct sigaction action {};
  action.sa_handler = [](int) { ::alarm(1); };
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// Exits after the goodbyes of all ranks, so that the error is printed first.
[[noreturn]] void exit_together(JobSession& job, int status) {
  try {
    start_quiet_thread("that ends the process", [status] {
      std::this_thread::sleep_for(exit_limit);
      ::_exit(status);
    }).detach();
  } catch (const Error&) {
    ::alarm(1);  // the exit status is then SIGALRM's
  }
  job.leave();
  // Skips MPI_Finalize, which would wait for ranks that never enter it.
  ::_exit(status);
}

/// Prints the error and exits. For a main thread that is blocked inside NCCL.
[[noreturn]] void exit_from_other_thread(const Error& error, bool verbose) {
  if (error.speaks_for_job() || verbose) {
    print_error(error.sentence() + "; NCCL does not return although it was aborted");
  }
  if (!error.speaks_for_job()) std::this_thread::sleep_for(reporter_head_start);
  ::_exit(1);
}

/// Whether this rank prints an error of set-up. Most errors are the same on all ranks. Exceptions
/// are a missing rank, which may be rank 0, and errors of a single process.
bool reports_setup_error(const JobOptions& options, const Error& error, bool started) {
  const auto& failed_ranks = error.failed_ranks();
  // A mismatch lists ranks that are alive.
  const bool rank_0_failed =
      error.code() == ErrorCode::peer_lost &&
      std::find(failed_ranks.begin(), failed_ranks.end(), 0) != failed_ranks.end();
  if (error.rank() >= 0 || error.code() == ErrorCode::timeout || rank_0_failed) {
    return error.speaks_for_job();
  }
  // Without an MPI launcher each process is set up on its own.
  const bool may_concern_this_rank_only =
      error.code() == ErrorCode::usage || error.code() == ErrorCode::system;
  if (!started && may_concern_this_rank_only &&
      !launch::started_by_mpi_launcher(current_environment())) {
    return true;
  }
  return launched_rank(options.launch) == 0;
}

}  // namespace

struct JobSession::Mpi {
#ifdef TUTTI_HAS_MPI
  MpiSession session;
#endif
};

JobSession::JobSession() = default;
JobSession::~JobSession() = default;

void JobSession::start(const JobOptions& options) {
  Options settings;
  if (options.timeout.count() > 0) settings.timeout = options.timeout;
  if (options.verbose) settings.log_level = LogLevel::info;
  settings.backend = options.backend;
  settings.on_stuck = [verbose = options.verbose](const Error& error) {
    exit_from_other_thread(error, verbose);
  };

  instead_of_communicator_ = options.instead_of_communicator;
  open(options, settings);
  if (communicator_ && communicator_->has_device_path()) {
    device_memory_ = std::make_shared<device::DeviceMemory>(communicator_->device());
  }
}

std::string JobSession::make_communicator(Bootstrap& bootstrap, const Options& settings) {
  if (instead_of_communicator_) {
    instead_of_communicator_(bootstrap);
    finished_ = true;
    return "no communicator";
  }
  communicator_ = std::make_unique<Communicator>(Communicator::create(bootstrap, settings));
  return communicator_->setup_phases();
}

void JobSession::open(const JobOptions& options, const Options& settings) {
  const auto map = current_environment();
  const auto choice = launch::choose_init(map, options.launch);
  if (choice.init == launch::Init::mpi) return open_mpi(options, settings);
  if (choice.init == launch::Init::alone) {
    AloneBootstrap alone;
    source_ = alone.source();
    phases_ = make_communicator(alone, settings);
    return;
  }
  const auto begin = Clock::now();
  Log log(settings.log_level.value_or(LogLevel::warning), nullptr);
  const auto store = store::open(map, options.launch, choice, options.insecure, log,
                                 Deadline::after_running(setup_timeout(settings)));
  const auto store_time = milliseconds_since(begin);
  source_ = store->source();
  const auto phases = make_communicator(*store, settings);
  phases_ = fmt::format("store {:.1f} ms ({} messages), {}", store_time, store->messages(), phases);
}

void JobSession::open_mpi([[maybe_unused]] const JobOptions& options,
                          [[maybe_unused]] const Options& settings) {
#ifdef TUTTI_HAS_MPI
  // Both are slow: initialize CUDA in parallel with MPI.
  if (settings.backend == BackendChoice::nccl) {
    prewarm_ = device::Prewarm::from(current_environment());
  }
  const auto begin = Clock::now();
  mpi_ = std::make_unique<Mpi>();
  const auto mpi_time = milliseconds_since(begin);
  std::string cuda_text;
  if (prewarm_) {
    const auto cuda_begin = Clock::now();
    prewarm_->wait(Deadline::after(setup_timeout(settings)));
    cuda_text =
        fmt::format("CUDA, in parallel, {:.1f} ms longer, ", milliseconds_since(cuda_begin));
  }
  MpiBootstrap bootstrap(MPI_COMM_WORLD, Deadline::after_running(setup_timeout(settings)));
  source_ = bootstrap.source();
  mpi_library_ = MpiBootstrap::library_version();
  (void)launch::require_agreement(
      current_environment(), options.launch,
      {.rank = bootstrap.rank(), .size = bootstrap.size(), .mpi = mpi_library_});
  phases_ = fmt::format("MPI_Init {:.1f} ms, {}{}", mpi_time, cuda_text,
                        make_communicator(bootstrap, settings));
#else
  throw Error(ErrorCode::usage,
              "an MPI launcher started this process, but tutti was built without MPI: build it "
              "with -Dmpi=enabled, or use --init env:// with MASTER_ADDR and MASTER_PORT set");
#endif
}

std::optional<Stream> JobSession::stream() const {
  if (!device_memory_) return std::nullopt;
  return Stream(device_memory_->stream());
}

bool JobSession::is_on_nccl() const {
  return device_memory_ && !communicator_->is_device_path_staged();
}

std::string JobSession::mpi() const {
  return mpi_version_text(mpi_library_);
}

std::string JobSession::phases() const {
  return phases_;
}

void JobSession::finish() {
  communicator_->finalize();
  communicator_.reset();
  device_memory_.reset();
  finished_ = true;
}

Error JobSession::abort(const Error& error) noexcept {
  try {
    communicator_->abort(error.sentence());
    communicator_->barrier();  // throws the agreed failure
  } catch (const Error& agreed) {
    return agreed;
  } catch (const std::exception&) {
    return error;
  }
  return error;
}

int run_job(const JobOptions& options, const std::function<int(JobSession&)>& body) {
  JobSession job;
  std::optional<Error> error;
  if (launch::started_by_mpi_launcher(current_environment())) delay_sigterm();
  try {
    job.start(options);
    return body(job);
  } catch (const Error& caught) {
    error = caught;
  } catch (const std::exception& caught) {
    error = Error(ErrorCode::system, fmt::format("unexpected error on rank {}: {}",
                                                 launched_rank(options.launch), caught.what()));
  }
  const int status = error->code() == ErrorCode::usage ? 2 : 1;
  if (job.finished()) {
    print_error(error->sentence());
    return status;
  }
  auto sentence = error->sentence();
  bool reports = error->speaks_for_job();
  if (error->code() == ErrorCode::usage || !job.started()) {
    reports = reports_setup_error(options, *error, job.started());
  } else if (error->code() == ErrorCode::system && error->failed_ranks().empty()) {
    // Only this rank has failed: abort the job, so that the others return.
    const auto agreed = job.abort(*error);
    reports = agreed.speaks_for_job();
    sentence = agreed.sentence();
  } else if (!error->operation().empty() &&
             sentence.find(error->operation()) == std::string::npos) {
    sentence += fmt::format(" (in {}, call {})", error->operation(), error->sequence());
  }
  if (reports || options.verbose) print_error(sentence);
  std::fflush(nullptr);
  if (!job.started() && !reports) std::this_thread::sleep_for(reporter_head_start);
  exit_together(job, status);
}

int launched_rank(const launch::Words& words) {
  return launch::claimed_rank(current_environment(), words).value_or(0);
}

}  // namespace tutti::app
