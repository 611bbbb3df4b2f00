#include "device/session.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "device/inventory.hpp"
#include "device/limited_call.hpp"
#include "device/nccl_numbers.hpp"

namespace tutti::device {
namespace {

// ncclCommAbort and ncclCommDestroy wait for the other ranks' work; ranks that are gone do none.
constexpr std::chrono::nanoseconds orderly_end_limit = std::chrono::seconds(5);
constexpr std::chrono::milliseconds abort_limit{800};
constexpr std::chrono::milliseconds verdict_limit{500};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// What rank 0 hands round: the id, or why there is none.
struct IdMessage {
  std::uint8_t made = 0;
  std::array<char, 255> reason{};
  NcclUniqueId id{};
};

}  // namespace

Session::Session(Parts parts, int device_index, std::chrono::nanoseconds timeout) : parts_(parts) {
  const CallSettings settings{.timeout = timeout};
  const auto start = std::chrono::steady_clock::now();
  open_device(device_index);
  const auto context_time = milliseconds_since(start);
  const auto id = share_unique_id(settings);
  const auto before_join = std::chrono::steady_clock::now();
  join(id, timeout);
  phases_ = fmt::format("CUDA context {:.1f} ms, NCCL {:.1f} ms", context_time,
                        milliseconds_since(before_join));
}

void Session::open_device(int device_index) {
  check_cuda(cuda().device_get(&device_, device_index), "choosing the device");
  check_cuda(cuda().retain_primary_context(&context_, device_), "making the CUDA context");
}

NcclUniqueId Session::share_unique_id(const CallSettings& settings) {
  IdMessage message;
  if (parts_.plane.peers().rank() == 0) {
    const Current current(*this);
    const auto result = nccl().get_unique_id(&message.id);
    message.made = result == nccl_success ? 1 : 0;
    const auto reason = nccl_error_text(nccl(), nullptr, result);
    std::memcpy(message.reason.data(), reason.data(),
                std::min(reason.size(), message.reason.size() - 1));
  }
  parts_.host.broadcast(&message, sizeof message, Type::u8, 0, settings);
  message.reason.back() = 0;
  if (message.made == 0) {
    throw Error(ErrorCode::system,
                fmt::format("{} can't make the NCCL unique id: {}",
                            parts_.plane.peers().describe(0), message.reason.data()))
        .with_culprits({0});
  }
  return message.id;
}

void Session::join(const NcclUniqueId& id, std::chrono::nanoseconds timeout) {
  const auto& peers = parts_.plane.peers();
  const auto deadline = Deadline::after(timeout);
  // All are here, so whoever waits in NCCL waits for ranks that are in it too.
  parts_.host.barrier({.timeout = timeout});

  struct Joined {
    NcclResult result = nccl_success;
    NcclComm comm = nullptr;
  };
  // In a thread that may be given up: NCCL has no deadline of its own, and its non-blocking mode
  // would make every later call slower.
  LimitedCall<Joined> call([cuda = cuda(), nccl = nccl(), context = context_, id,
                            rank = peers.rank(), size = peers.size()] {
    Joined joined;
    cuda.set_context(context);
    joined.result = nccl.init_rank(&joined.comm, size, id, rank);
    return joined;
  });
  std::optional<Joined> joined;
  while (!joined && !deadline.expired()) {
    joined = call.wait_for(
        std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(50), deadline.remaining()));
    if (!joined && parts_.plane.failed()) throw parts_.plane.verdict_error();
  }
  if (!joined) {
    throw parts_.plane.report_and_wait(
        {.code = ErrorCode::timeout,
         .sentence = fmt::format("{}: NCCL's set-up was not done after {:g} s; set NCCL_DEBUG=INFO "
                                 "to see what it waits for, or "
                                 "use --backend cpu",
                                 peers.describe(peers.rank()),
                                 std::chrono::duration<double>(timeout).count()),
         .origin = peers.rank()},
        verdict_limit);
  }
  comm_ = joined->comm;
  check(joined->result, "NCCL's set-up");
  const Current current(*this);
  check_cuda(cuda().allocate(&token_, 1), "allocating a byte of device memory");
}

void* Session::token() const {
  return reinterpret_cast<void*>(token_);  // NOLINT(performance-no-int-to-ptr): CUDA gives a number
}

void Session::end(bool in_order, std::chrono::nanoseconds limit) {
  LimitedCall<bool> call([cuda = cuda(), nccl = nccl(), context = context_, comm = comm_,
                          token = token_, device = device_, in_order] {
    cuda.set_context(context);
    if (!in_order) {
      nccl.abort(comm);
    } else {
      if (nccl.finalize) nccl.finalize(comm);
      nccl.destroy(comm);
    }
    cuda.free(token);
    cuda.release_primary_context(device);
    return true;
  });
  comm_ = nullptr;
  // Past the limit the thread is given up: it and what it holds stay until the process ends.
  static_cast<void>(call.wait_for(limit));
}

void Session::abort() noexcept {
  if (comm_ == nullptr) return;
  try {
    end(false, abort_limit);
  } catch (const std::exception&) {
    // No thread to be had: then NCCL is left alone at once.
    comm_ = nullptr;
  }
}

Session::~Session() {
  if (comm_ == nullptr) return;
  try {
    end(!parts_.plane.failed(),
        parts_.plane.failed() ? std::chrono::nanoseconds(abort_limit) : orderly_end_limit);
  } catch (const std::exception&) {
    return;
  }
}

Session::Current::Current(const Session& session) : cuda_(session.cuda()) {
  cuda_.get_context(&before_);
  if (before_ == session.context_) return;
  session.check_cuda(cuda_.set_context(session.context_), "making the device current");
  changed_ = true;
}

Session::Current::~Current() {
  if (changed_) cuda_.set_context(before_);
}

void Session::check(NcclResult result, const char* doing) const {
  if (result == nccl_success || result == nccl_in_progress) return;
  fail(doing, nccl_error_text(nccl(), comm_, result));
}

void Session::check_cuda(CudaResult result, const char* doing) const {
  if (result == cuda_success) return;
  fail(doing, cuda_error_text(cuda(), result));
}

/// The other ranks wait for this one on their devices: all must hear of it. And where the trouble
/// is another rank's, the control plane knows whose.
void Session::fail(const char* doing, const std::string& reason) const {
  const auto& peers = parts_.plane.peers();
  throw parts_.plane.report_and_wait(
      {.code = ErrorCode::system,
       .culprits = {peers.rank()},
       .sentence = fmt::format("{}: {} failed: {}", peers.describe(peers.rank()), doing, reason),
       .origin = peers.rank()},
      verdict_limit);
}

}  // namespace tutti::device
