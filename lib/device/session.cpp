#include "session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "device/inventory.hpp"
#include "device/nccl_numbers.hpp"
#include "device/nccl_watchdog.hpp"
#include "limited_call.hpp"

namespace tutti::device {
namespace {

// ncclCommAbort and ncclCommDestroy wait for the other ranks, which may be lost.
constexpr std::chrono::nanoseconds orderly_end_limit = std::chrono::seconds(5);
constexpr std::chrono::milliseconds abort_limit{800};
// Interval between checks of the other ranks' set-up.
constexpr std::chrono::milliseconds first_round{20};
constexpr std::chrono::milliseconds longest_round{500};

using Clock = std::chrono::steady_clock;

/// Result of a rank's set-up.
struct Joined {
  std::string failure;
  NcclComm comm = nullptr;
  DeviceAddress token = 0;
};

Joined init(const Context& context, const NcclCalls& nccl, const NcclUniqueId& id,
            const control::Group& group, const std::atomic<bool>& given_up) {
  Joined joined;
  const auto& cuda = context.cuda();
  auto cuda_result = cuda.set_context(context.handle());
  if (cuda_result == cuda_success) {
    const auto result = nccl.init_rank(&joined.comm, group.size(), id, group.rank);
    if (result != nccl_success) {
      joined.failure = "NCCL's set-up failed: " + nccl_error_text(nccl, nullptr, result);
      joined.comm = nullptr;
      return joined;
    }
    if (given_up) {
      nccl.abort(joined.comm);
      return joined;
    }
    cuda_result = cuda.allocate(&joined.token, 1);
  }
  if (cuda_result != cuda_success) {
    joined.failure = "preparing the device failed: " + cuda_error_text(cuda, cuda_result);
  }
  return joined;
}

}  // namespace

Session::Session(Parts parts, SetupExchange& setup, const Broadcast& broadcast)
    : parts_(std::move(parts)), errors_(parts_.detector, parts_.context->cuda()) {
  const auto start = Clock::now();
  nccl().get_version(&version_);
  reserve_watchdog_thread();
  const IdMaker maker{.context = parts_.context,
                      .nccl = parts_.nccl,
                      .detector = parts_.detector,
                      .group = parts_.group};
  join(share_unique_id(maker, setup, broadcast), setup);
  setup_milliseconds_ = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Reserved here, so that join() tells the other ranks if it fails.
void Session::reserve_watchdog_thread() {
  try {
    watchdog_thread_ = std::make_unique<ReservedThread>(NcclWatchdog::purpose);
  } catch (const Error& error) {
    no_thread_because_ = error.sentence();
  }
}

void Session::join(const NcclUniqueId& id, SetupExchange& setup) {
  // In a thread that can be abandoned: NCCL has no deadline, and its non-blocking mode would slow
  // down every later call (docs/decisions/0004).
  const auto given_up = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<LimitedCall<Joined>> call;
  std::optional<Joined> joined;
  if (!no_thread_because_.empty()) joined = Joined{.failure = no_thread_because_};
  try {
    if (!joined)
      call = std::make_unique<LimitedCall<Joined>>(
          [context = parts_.context, nccl = parts_.nccl, id, group = parts_.group, given_up] {
            return init(*context, nccl->calls, id, group, *given_up);
          });
  } catch (const Error& error) {
    joined = Joined{.failure = error.sentence()};  // the other ranks wait for this rank's result
  }
  try {
    auto round = first_round;
    while (true) {
      const auto left = setup.deadline().remaining();
      if (call) joined = call->wait_for(std::min<std::chrono::nanoseconds>(round, left));
      std::string failure;
      if (joined) {
        failure = joined->failure;
      } else if (setup.deadline().expired()) {
        failure = "NCCL's set-up timed out; NCCL_DEBUG=INFO shows what it waits for";
      }
      if (setup.all_done(joined.has_value(), failure)) break;
      round = std::min(2 * round, longest_round);
    }
  } catch (...) {
    *given_up = true;
    if (joined) comm_ = joined->comm;
    abort();
    throw;
  }
  comm_ = joined->comm;
  token_ = joined->token;
}

void* Session::token() const {
  return reinterpret_cast<void*>(token_);  // NOLINT(performance-no-int-to-ptr): CUDA gives a number
}

void Session::end(bool in_order, std::chrono::nanoseconds limit) {
  // Past the limit the thread is abandoned: it and all that it holds stay until the process ends.
  LimitedCall<bool> call([context = parts_.context, nccl = parts_.nccl, comm = comm_.load(),
                          token = token_, in_order] {
    const auto& cuda = context->cuda();
    cuda.set_context(context->handle());
    if (!in_order) {
      nccl->calls.abort(comm);
    } else {
      if (nccl->calls.finalize != nullptr) nccl->calls.finalize(comm);
      nccl->calls.destroy(comm);
    }
    if (token != 0) cuda.free(token);
    return true;
  });
  comm_ = nullptr;
  static_cast<void>(call.wait_for(limit));
}

void Session::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  is_aborted_.store(true);
  try {
    end(false, abort_limit);
  } catch (const std::exception&) {
    // No thread available: leave NCCL alone immediately.
    comm_ = nullptr;
  }
}

Session::~Session() {
  if (parts_.detector.job_failed()) abort();
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  try {
    end(true, orderly_end_limit);
  } catch (const std::exception&) {
    return;
  }
}

void Session::check_async() const {
  NcclResult trouble = nccl_success;
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    const auto result = nccl().get_async_error(comm_, &trouble);
    if (trouble == nccl_success) trouble = result;
  }
  if (trouble != nccl_success && trouble != nccl_in_progress) fail(trouble, "work on the stream");
}

void Session::fail(NcclResult result, const std::string& doing) const {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = nccl_error_text(nccl(), comm_, result);
  }
  errors_.fail(doing, reason);
}

}  // namespace tutti::device
