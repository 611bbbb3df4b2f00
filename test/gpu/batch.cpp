#include "batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "problem.hpp"

namespace tutti::gpu_test {
namespace {

/// Where a case's buffers are in the batch's memory.
struct Placed {
  const Case& one;
  Problem problem;
  std::size_t send_at = 0;
  std::size_t recv_at = 0;   ///< in place: of the only buffer
  std::size_t elements = 0;  ///< of that buffer

  [[nodiscard]] std::size_t bytes(std::size_t count) const { return count * size_of(one.type); }
};

class Batch {
 public:
  Batch(const Communicator& communicator, const std::vector<Case>& cases, std::uint64_t seed)
      : rank_(communicator.rank()) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      add({.one = cases[i], .problem = Problem(cases[i], rank_, communicator.size(), seed + i)});
    }
  }

  [[nodiscard]] const std::vector<Placed>& placed() const { return placed_; }
  /// What the memory contains at first.
  [[nodiscard]] const std::vector<std::byte>& image() const { return image_; }

  [[nodiscard]] Collective call(const Placed& placed, std::byte* memory) const {
    const auto& problem = placed.problem;
    auto call = problem.call();
    call.memory = Memory::device;
    call.in_place = problem.in_place_here();
    call.recv = memory + placed.recv_at;
    call.recv_count = placed.elements;
    if (call.in_place) return call;
    const auto sent = problem.has_send() ? problem.send_elements() : 0;
    call.send = sent > 0 ? memory + placed.send_at : nullptr;
    call.send_count = sent;
    call.recv = placed.elements > 0 ? memory + placed.recv_at : nullptr;
    return call;
  }

  /// Empty if `found`, the memory at the end, is correct.
  [[nodiscard]] std::string judge(std::vector<std::byte> found) const {
    for (const auto& placed : placed_) {
      const auto& problem = placed.problem;
      if (!problem.has_recv()) continue;
      const auto begin = found.begin() + static_cast<std::ptrdiff_t>(placed.recv_at);
      const auto bytes = static_cast<std::ptrdiff_t>(placed.bytes(placed.elements));
      const auto count = problem.recv_elements();
      // In place, the result of reduce_scatter is this rank's block.
      const auto first = placed.elements > count ? static_cast<std::size_t>(rank_) * count : 0;
      const auto result = begin + static_cast<std::ptrdiff_t>(placed.bytes(first));
      const auto wrong =
          problem.judge({result, result + static_cast<std::ptrdiff_t>(placed.bytes(count))});
      if (!wrong.empty()) return fmt::format("{}: {}", placed.one.text(), wrong);
      const auto before = image_.begin() + static_cast<std::ptrdiff_t>(placed.recv_at);
      std::copy(before, before + bytes, begin);
    }
    const auto changed = std::mismatch(found.begin(), found.end(), image_.begin());
    if (changed.first == found.end()) return {};
    return fmt::format("byte {} of the batch's memory has changed: {}",
                       changed.first - found.begin(),
                       owner_of(static_cast<std::size_t>(changed.first - found.begin())));
  }

 private:
  void add(Placed placed) {
    const auto& problem = placed.problem;
    const auto send = problem.has_send() ? problem.send_elements() : 0;
    const auto recv = problem.has_recv() ? problem.recv_elements() : 0;
    if (problem.in_place_here()) {
      placed.elements = std::max(problem.send_elements(), problem.recv_elements());
      placed.recv_at = reserve(placed, placed.elements);
      write(placed.recv_at + placed.bytes(problem.own_offset()), problem.own_input());
    } else {
      placed.send_at = reserve(placed, send);
      if (problem.has_send()) write(placed.send_at, problem.own_input());
      placed.elements = recv;
      placed.recv_at = reserve(placed, recv);
      const bool one_buffer = shape_of(placed.one.operation).send == Extent::none;
      if (one_buffer && rank_ == placed.one.root) write(placed.recv_at, problem.root_input());
    }
    placed_.push_back(std::move(placed));
  }
  /// The distance of buffers keeps those with offset 0 aligned as allocations are.
  std::size_t reserve(const Placed& placed, std::size_t elements) {
    constexpr std::size_t alignment = 256;
    const auto at =
        (image_.size() + alignment - 1) / alignment * alignment + placed.bytes(placed.one.offset);
    image_.resize(at + placed.bytes(elements) + 16, poison_value);
    return at;
  }
  void write(std::size_t at, const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), image_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  /// The case whose buffer begins last before the byte.
  [[nodiscard]] std::string owner_of(std::size_t byte) const {
    std::string text = "before all buffers";
    std::size_t latest = 0;
    for (const auto& placed : placed_) {
      for (const auto at : {placed.send_at, placed.recv_at}) {
        if (at > byte || at < latest) continue;
        latest = at;
        text = fmt::format("in or behind {} at {}", placed.one.text(), at);
      }
    }
    return text;
  }

  int rank_;
  std::vector<std::byte> image_;
  std::vector<Placed> placed_;
};

}  // namespace

std::string check_batch(Communicator& communicator, device::DeviceMemory& first,
                        device::DeviceMemory& second, const std::vector<Case>& cases,
                        bool in_windows, std::uint64_t seed, std::mt19937_64& own) {
  const Batch batch(communicator, cases, seed);
  const auto bytes = batch.image().size();
  const auto buffer = in_windows ? std::make_unique<DeviceBuffer>(communicator, first, bytes)
                                 : std::make_unique<DeviceBuffer>(first, bytes);
  auto& memory = *buffer;
  memory.upload(batch.image());
  std::vector<Work> works;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& placed = batch.placed()[i];
    if (own() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
    // All ranks use the same stream for a call.
    const CallOptions options{.stream =
                                  Stream(((seed >> (i % 60)) % 2 == 0 ? first : second).stream())};
    const auto call = batch.call(placed, memory.data());
    if (placed.one.started) {
      works.push_back(communicator.start(call, options));
    } else {
      communicator.run(call, options);
    }
    if (placed.one.count != 0 && !communicator.latest_algorithm().starts_with("direct")) {
      return placed.one.text() + " was taken by " + communicator.latest_algorithm();
    }
  }
  for (auto& work : works) work.wait();
  communicator.synchronize(Stream(first.stream()));
  communicator.synchronize(Stream(second.stream()));
  return batch.judge(memory.download());
}

}  // namespace tutti::gpu_test
