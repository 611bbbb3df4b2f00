#pragma once

// Compiled by your own mpicxx, so that one libtutti serves every MPI. C API only.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/environment.hpp"

namespace tutti {

/// Bootstrap over a duplicate of any MPI intra-communicator, also one of an MPI session. Uses
/// non-blocking calls only, each with a deadline. MPI_THREAD_SINGLE is enough.
///
/// After Error{timeout} MPI requests are still pending, so MPI_Finalize may hang: end the process
/// without it (MpiSession does).
class MpiBootstrap final : public Bootstrap {
 public:
  /// Collective over `communicator`, which stays the caller's. Throws Error{timeout, usage,
  /// system}; Error{usage} also if the launcher's variables contradict MPI_COMM_WORLD. An invalid
  /// communicator (null, inter-communicator) is reported without communication.
  MpiBootstrap(MPI_Comm communicator, Deadline deadline) {
    require_running(communicator);
    require_intra(communicator);
    if (!is_of_session()) require_agreement();
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Comm_idup(communicator, &communicator_, &request), "MPI_Comm_idup");
    wait(request, deadline, "duplicating the communicator");
    // MPI's default would end the job without tutti's message.
    check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  }
  /// Frees the duplicate, except during stack unwinding: MPI_Comm_free is collective, an MPI may
  /// synchronize in it, and other ranks may never call it. MPI_Finalize then frees it.
  ~MpiBootstrap() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
    if (finalized == 0 && !has_open_request_ && !unwinding) MPI_Comm_free(&communicator_);
  }

  /// Rank in the communicator.
  [[nodiscard]] int rank() const override { return rank_; }
  /// Size of the communicator.
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string source() const override {
    return "MPI (" + library_version() + ")" + overridden_;
  }
  /// True if MPI_Init has not been called, so that communicators can only be those of an MPI
  /// session, and MPI_COMM_WORLD and MPI_COMM_SELF do not exist.
  [[nodiscard]] static bool is_of_session() {
    int initialized = 0;
    MPI_Initialized(&initialized);
    return initialized == 0;
  }
  /// "Open MPI v4.1.4"
  [[nodiscard]] static std::string library_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    std::string line;
    for (int i = 0; i < length; ++i) {
      const char c =
          text[static_cast<std::size_t>(i)] == '\t' ? ' ' : text[static_cast<std::size_t>(i)];
      if (c == ',' || c == '\n' || c == '\0') break;
      if (c != ' ' || (!line.empty() && line.back() != ' ')) line += c;
    }
    return line;
  }

  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override {
    const auto ranks = static_cast<std::size_t>(size_);
    const int length = int_length(mine.size());
    std::vector<int> lengths(ranks);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, communicator_, &request),
          "MPI_Iallgather");
    wait(request, deadline, "exchanging the lengths of messages");

    std::vector<int> offsets(ranks);
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      offsets[rank] = int_length(total);
      total += static_cast<std::size_t>(std::max(lengths[rank], 0));
    }
    Bytes all(total);
    check(MPI_Iallgatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), offsets.data(),
                          MPI_BYTE, communicator_, &request),
          "MPI_Iallgatherv");
    wait(request, deadline, "exchanging messages");

    std::vector<Bytes> result(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto begin = all.begin() + offsets[rank];
      result[rank].assign(begin, begin + std::max(lengths[rank], 0));
    }
    return result;
  }

  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override {
    int length = rank_ == root ? int_length(from_root.size()) : 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(&length, 1, MPI_INT, root, communicator_, &request), "MPI_Ibcast");
    wait(request, deadline, "broadcasting the length of a message");
    Bytes message(static_cast<std::size_t>(std::max(length, 0)));
    if (rank_ == root) message = from_root;
    check(MPI_Ibcast(message.data(), length, MPI_BYTE, root, communicator_, &request),
          "MPI_Ibcast");
    wait(request, deadline, "broadcasting a message");
    return message;
  }

  void barrier(Deadline deadline) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(communicator_, &request), "MPI_Ibarrier");
    wait(request, deadline, "waiting for all ranks");
  }

 private:
  static void require_running(MPI_Comm communicator) {
    if (communicator == MPI_COMM_NULL) {
      throw Error(
          ErrorCode::usage,
          "the communicator is MPI_COMM_NULL, which has no ranks: MPI gives it to ranks that "
          "are not in the new communicator (MPI_Comm_split with MPI_UNDEFINED, "
          "MPI_Comm_create), and those must not call from_mpi");
    }
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized != 0) {
      throw Error(ErrorCode::usage,
                  "MPI is already finalised: make communicators before MPI_Finalize");
    }
    if (initialized != 0) return;
#if MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
    // MPI can't be asked whether a session is open, but nothing else makes other communicators.
    if (communicator != MPI_COMM_WORLD && communicator != MPI_COMM_SELF) return;
    throw Error(ErrorCode::usage,
                "MPI is not initialised: call MPI_Init first, or use tutti::MpiSession, or pass a "
                "communicator of an MPI session (MPI_Comm_create_from_group)");
#else
    throw Error(ErrorCode::usage,
                "MPI is not initialised: call MPI_Init first, or use tutti::MpiSession");
#endif
  }

  static void require_intra(MPI_Comm communicator) {
    int is_inter = 0;
    check(MPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
    if (is_inter == 0) return;
    int local = 0;
    int remote = 0;
    check(MPI_Comm_size(communicator, &local), "MPI_Comm_size");
    check(MPI_Comm_remote_size(communicator, &remote), "MPI_Comm_remote_size");
    throw Error(ErrorCode::usage,
                "the communicator is an inter-communicator (of " + std::to_string(local) +
                    " local and " + std::to_string(remote) +
                    " remote ranks), and tutti takes an intra-communicator: pass the one that "
                    "MPI_Intercomm_merge makes of it");
  }

  void require_agreement() {
    int rank = 0;
    int size = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    overridden_ = check_launcher(rank, size, library_version());
  }

  static int int_length(std::size_t length) {
    if (length <= static_cast<std::size_t>(INT_MAX)) return static_cast<int>(length);
    throw Error(ErrorCode::usage, "a bootstrap message of " + std::to_string(length) +
                                      " bytes is too long for MPI's int counts");
  }

  static void check(int result, const char* call) {
    if (result == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(result, text.data(), &length);
    throw Error(ErrorCode::system, std::string(call) + " failed: " +
                                       std::string(text.data(), static_cast<std::size_t>(length)));
  }

  void wait(MPI_Request& request, Deadline deadline, const char* doing) {
    while (true) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return;
      if (deadline.expired()) {
        has_open_request_ = true;
        throw Error(
            ErrorCode::timeout,
            std::string("set-up timed out while ") + doing +
                " over MPI: a rank is late or has not called from_mpi (MPI can't tell which); see "
                "the other ranks' messages, or set a longer timeout (TUTTI_TIMEOUT, --timeout or "
                "Options::timeout)" +
                unacknowledged_data());
      }
      // Ranks may outnumber cores: the late rank may need this core.
      ::sched_yield();
    }
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool has_open_request_ = false;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::string overridden_;
};

/// Makes progress in MPI, if MPI is initialised.
inline void drive_mpi() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return;
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

/// The same for an MPI session, which has no MPI_COMM_SELF. `of_session` is any communicator of it
/// that has not been freed.
inline void drive_mpi(MPI_Comm of_session) {
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, of_session, &found, MPI_STATUS_IGNORE);
}

/// Collective over `communicator`, which stays the caller's: any intra-communicator, also one of an
/// MPI session (MPI_Comm_create_from_group). After it returns, tutti calls MPI only if
/// `options.mpi_progress` is set. In a program with sessions only, these calls use `communicator`,
/// which must then outlive the result. Throws Error.
[[nodiscard]] inline Communicator from_mpi(MPI_Comm communicator, const Options& options = {}) {
  MpiBootstrap bootstrap(communicator, Deadline::after_running(setup_timeout(options)));
  if (!options.mpi_progress) return Communicator::create(bootstrap, options);
  auto driving = options;
  driving.while_waiting = [of_session = MpiBootstrap::is_of_session(), communicator,
                           also = options.while_waiting] {
    if (of_session) {
      drive_mpi(communicator);
    } else {
      drive_mpi();
    }
    if (also) also();
  };
  return Communicator::create(bootstrap, driving);
}

/// Calls MPI_Init_thread, requesting MPI_THREAD_FUNNELED, and MPI_Finalize. Does nothing if other
/// code of the program has called MPI_Init.
///
/// During stack unwinding it does not call MPI_Finalize, because other ranks may never call it;
/// MPI's launcher then ends the job.
class MpiSession {
 public:
  MpiSession() {
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized != 0) return;
    // tutti's threads never call MPI, so an MPI that provides less will do.
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      throw Error(ErrorCode::system, "MPI_Init_thread failed: look at what MPI printed above");
    }
    initialized_here_ = true;
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// For use after a rank was lost: MPI_Finalize might wait for it forever, so it is skipped.
  void skip_finalize() noexcept { initialized_here_ = false; }
  ~MpiSession() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
    if (initialized_here_ && finalized == 0 && !unwinding) MPI_Finalize();
  }

 private:
  bool initialized_here_ = false;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

/// As abort_after(error), but ends all ranks of MPI's job by MPI_Abort on `communicator`, with
/// exit status 1. For the `catch` in main(), instead of MPI_Finalize, which may wait for ranks that
/// never call it.
[[noreturn]] inline void abort_after(const Error& error, MPI_Comm communicator) noexcept {
  report_once(error);
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Without MPI_Init there is an MPI session's communicator, or none.
  const bool can_abort = communicator != MPI_COMM_WORLD || !MpiBootstrap::is_of_session();
  std::fflush(nullptr);
  if (finalized == 0 && can_abort) MPI_Abort(communicator, 1);
  std::_Exit(1);
}

}  // namespace tutti
