#include "device/unique_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "device/inventory.hpp"
#include "device/nccl_numbers.hpp"
#include "limited_call.hpp"

namespace tutti::device {
namespace {

// Interval between checks for a failure.
constexpr std::chrono::milliseconds one_round{20};

/// Rank 0's message: the id, or the reason of its failure.
struct IdMessage {
  std::uint8_t made = 0;
  std::array<char, 255> reason{};
  NcclUniqueId id{};
};

IdMessage make(const Context& context, const NcclCalls& nccl) {
  IdMessage message;
  std::string reason;
  if (const auto current = context.cuda().set_context(context.handle()); current != cuda_success) {
    reason = cuda_error_text(context.cuda(), current);
  } else {
    const auto result = nccl.get_unique_id(&message.id);
    message.made = result == nccl_success ? 1 : 0;
    if (message.made == 0) reason = nccl_error_text(nccl, nullptr, result);
  }
  std::memcpy(message.reason.data(), reason.data(),
              std::min(reason.size(), message.reason.size() - 1));
  return message;
}

/// In a thread that can be abandoned, like all calls of NCCL without a deadline. On failure sets
/// `failure`; if the job has failed, the next call over the host path ends anyway.
IdMessage make_in_time(const IdMaker& maker, Deadline deadline, std::string& failure) {
  try {
    LimitedCall<IdMessage> call(
        [context = maker.context, nccl = maker.nccl] { return make(*context, nccl->calls); });
    while (!maker.detector.job_failed()) {
      if (auto message =
              call.wait_for(std::min<std::chrono::nanoseconds>(one_round, deadline.remaining()))) {
        return *message;
      }
      if (!deadline.expired()) continue;
      failure = "creating the NCCL unique id timed out; NCCL_DEBUG=INFO shows what it waits for";
      break;
    }
  } catch (const std::exception& error) {
    failure = fmt::format("can't create the NCCL unique id: {}", error.what());
  }
  return {};
}

}  // namespace

NcclUniqueId share_unique_id(const IdMaker& maker, SetupExchange& setup,
                             const Broadcast& broadcast) {
  IdMessage message;
  std::string failure;
  if (maker.group.rank == 0) message = make_in_time(maker, setup.deadline(), failure);
  static_cast<void>(setup.all_done(true, failure));
  Bytes bytes(sizeof message);
  std::memcpy(bytes.data(), &message, sizeof message);
  bytes = broadcast(bytes);
  if (bytes.size() != sizeof message) {
    throw Error(ErrorCode::mismatch,
                fmt::format("rank 0 sent {} bytes instead of {} of the NCCL unique id: the "
                            "Bootstrap's broadcast returned another message",
                            bytes.size(), sizeof message));
  }
  std::memcpy(&message, bytes.data(), sizeof message);
  message.reason.back() = 0;
  if (message.made == 0) {
    throw setup.failure_of(
        0, fmt::format("can't create the NCCL unique id: {}", message.reason.data()));
  }
  return message.id;
}

}  // namespace tutti::device
