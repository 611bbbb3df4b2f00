#include "device/setup_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "base/error_builder.hpp"

namespace tutti::device {
namespace {

// Ranks learn of each other's deadlines here, so these calls may last slightly longer.
constexpr std::chrono::milliseconds grace{1000};
constexpr std::size_t reason_bytes = 1024;

}  // namespace

CallSettings SetupExchange::settings() const {
  return {.timeout = deadline_.remaining() + grace};
}

bool SetupExchange::all_done(bool own_done, const std::string& own_failure) {
  // The lowest failed rank, encoded for a maximum, and whether any rank is still working.
  std::array<std::int32_t, 2> state{own_failure.empty() ? 0 : group_.size() - group_.rank,
                                    own_done ? 0 : 1};
  const auto own = state;
  host_.run(CheckedCollective{.operation = Operation::all_reduce,
                              .type = Type::i32,
                              .op = Operator::max,
                              .count = state.size(),
                              .send = own.data(),
                              .recv = state.data()},
            settings());
  if (state[0] != 0) fail(group_.size() - state[0], own_failure);
  return state[1] == 0;
}

void SetupExchange::step(const std::function<void()>& action) {
  std::string failure;
  try {
    action();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  static_cast<void>(all_done(true, failure));
}

void SetupExchange::fail(int failed_rank, const std::string& own_failure) {
  std::array<char, reason_bytes> reason{};
  if (failed_rank == group_.rank) {
    std::memcpy(reason.data(), own_failure.data(), std::min(own_failure.size(), reason_bytes - 1));
  }
  host_.run(CheckedCollective{.operation = Operation::broadcast,
                              .root = failed_rank,
                              .count = reason.size(),
                              .recv = reason.data()},
            settings());
  reason.back() = 0;
  throw failure_of(failed_rank, reason.data());
}

AgreedFailure SetupExchange::failure_of(int failed_rank, const std::string& reason) const {
  const int world = group_.world_of(failed_rank);
  const Error error(ErrorCode::system, fmt::format("{}: {}", peers_.describe(world), reason),
                    {world});
  return AgreedFailure(ErrorBuilder(error)
                           .at(peers_.rank(), peers_.info(peers_.rank()).host.name)
                           .speaks_for_job(group_.rank == 0)
                           .error());
}

void SetupExchange::all_gather(void* blocks, std::size_t block_bytes) {
  host_.run(CheckedCollective{.operation = Operation::all_gather,
                              .count = block_bytes,
                              .send = static_cast<std::byte*>(blocks) +
                                      static_cast<std::size_t>(group_.rank) * block_bytes,
                              .recv = blocks,
                              .in_place = true},
            settings());
}

void SetupExchange::broadcast(void* bytes, std::size_t count) {
  host_.run(
      CheckedCollective{
          .operation = Operation::broadcast, .root = 0, .count = count, .recv = bytes},
      settings());
}

}  // namespace tutti::device
