// Which algorithm and schedule HostBackend takes for a call.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "algorithm/algorithms.hpp"
#include "algorithm/choice.hpp"
#include "communicator/host_backend.hpp"

namespace tutti {

using algorithm::Schedule;
using algorithm::ScheduleArguments;

namespace {

std::int64_t signed_count(std::size_t count) {
  return static_cast<std::int64_t>(count);
}

std::vector<std::int64_t> signed_counts(std::span<const std::size_t> counts) {
  return {counts.begin(), counts.end()};
}

bool is_16_bit_float(Type type) {
  return type == Type::f16 || type == Type::bf16;
}

}  // namespace

ScheduleArguments HostBackend::schedule_arguments(const CheckedCollective& call) const {
  return {.rank = group().rank,
          .size = group().size(),
          .root = std::max(call.root, 0),
          .count = signed_count(call.count),
          .in_place = call.in_place || shape_of(call.operation).send == Extent::none,
          .counts = signed_counts(call.counts),
          .recv_counts = signed_counts(call.recv_counts),
          .host = host_of_rank_,
          .max_published = std::max<std::int64_t>(
              1, signed_count(transport::published_bytes_of(group().id == 0 ? 0 : 1) /
                              size_of(call.type))),
          .shares_memory = channel_ != nullptr};
}

bool HostBackend::in_rank_order(const CheckedCollective& call) const {
  return shape_of(call.operation).reduces &&
         (settings_.deterministic || is_16_bit_float(call.type));
}

/// The algorithm that the call asks for, else the preferred one if the operation has it, else
/// empty: the library chooses. Not the caller's own memory.
std::string_view HostBackend::named_algorithm(const CheckedCollective& call,
                                              const CallSettings& settings) const {
  if (settings.algorithm.empty() && settings.preferred.empty()) return {};
  const bool in_rank_order = this->in_rank_order(call);
  const auto known = algorithm::algorithms_of(call.operation, in_rank_order);
  const auto wanted = settings.algorithm.empty() ? settings.preferred : settings.algorithm;
  const auto found = std::find(known.begin(), known.end(), wanted);
  if (found != known.end()) return *found;
  // A single rank shares its memory with all.
  if (wanted == SharedPath::name && group().size() == 1) return {};
  if (!settings.algorithm.empty()) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{} has no algorithm \"{}\"{}; it has {}{}", tutti::name(call.operation),
                    settings.algorithm,
                    in_rank_order ? " that combines in the order of ranks, as 16-bit floats and "
                                    "deterministic calls need"
                                  : "",
                    fmt::join(known, ", "),
                    engine::shareable(call.operation)
                        ? ", and shared if all ranks of the communicator share memory"
                        : ""));
  }
  return {};
}

Schedule HostBackend::make_schedule(const CheckedCollective& call,
                                    std::string_view algorithm) const {
  auto arguments = schedule_arguments(call);
  const algorithm::Traits traits{.element_bytes = signed_count(size_of(call.type)),
                                 .in_rank_order = in_rank_order(call),
                                 .costs = settings_.costs};
  if (algorithm.empty()) algorithm = algorithm::choose(call.operation, arguments, traits);
  arguments.chunk =
      settings_.chunk_bytes == 0
          ? algorithm::choose_chunk(call.operation, algorithm, arguments, traits)
          : signed_count(std::max<std::size_t>(1, settings_.chunk_bytes / size_of(call.type)));
  return algorithm::make(call.operation, algorithm, arguments);
}

std::shared_ptr<const Schedule> HostBackend::schedule_of(const CheckedCollective& call,
                                                         const CallSettings& settings) {
  const auto algorithm = named_algorithm(call, settings);
  if (auto known = schedules_.find(call, algorithm)) return known;
  return schedules_.insert(call, algorithm, make_schedule(call, algorithm));
}

}  // namespace tutti
