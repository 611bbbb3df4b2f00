// A lower bound for shared memory without single copy: the copies that the operation needs if no
// rank can read another's memory.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/copy.hpp"
#include "implementations.hpp"

namespace tutti::app::bench {
namespace {

/// Number of buffers (or blocks) that this rank copies: into shared memory, out of it, and from its
/// send to its receive buffer. Empty if no bound is known.
std::optional<double> units_copied(const CallSpec& spec) {
  const auto ranks = static_cast<double>(spec.ranks);
  const bool is_root = spec.rank == spec.root;
  const double own_block = is_in_place(spec) ? 0 : 1;
  switch (spec.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
    case Operation::reduce:
      // Reduce: a rank copies in all slices except its own, and copies out its own reduced slice.
      return 1;
    case Operation::send_recv:  // into shared memory and out of it
    case Operation::all_reduce:
      // A rank copies in all slices except its own. It copies its reduced slice to its own buffer
      // and to shared memory, and copies out the other slices.
      return 2;
    case Operation::all_gather:
      return ranks + own_block;
    case Operation::gather:
    case Operation::scatter:
      return is_root ? ranks - 1 + own_block : 1;
    case Operation::reduce_scatter:
      return ranks;
    case Operation::all_to_all:
      return 2 * (ranks - 1) + own_block;
    default:
      return std::nullopt;
  }
}

class CopiesImplementation final : public Implementation {
 public:
  explicit CopiesImplementation(JobSession& job)
      : Implementation("copies", "lower bound: the bytes that must be copied"), job_(job) {}

  std::string prepare(const Task& task) override {
    if (job_.communicator().host_count() > 1) return "copies is a bound for the ranks of one host";
    const auto units = units_copied(task.spec);
    if (!units) return "no bound is known";
    const auto unit = task.spec.count * size_of(task.spec.type);
    bytes_ = static_cast<std::size_t>(*units * static_cast<double>(unit));
    from_ = std::make_unique<std::byte[]>(bytes_);
    to_ = std::make_unique<std::byte[]>(bytes_);
    choose();
    return {};
  }
  void run() override { copy_(to_.get(), from_.get(), bytes_); }
  bool computes() const override { return false; }

 private:
  using Copy = void (*)(std::byte*, const std::byte*, std::size_t);

  /// Measures plain and streaming copies on all ranks at once, and selects the faster.
  void choose() {
    std::array<std::pair<double, Copy>, 2> kinds{{{1e30, copy_bytes}, {1e30, stream_bytes}}};
    for (int i = 0; i < 3; ++i) {
      for (auto& [best, copy] : kinds) {
        job_.communicator().barrier();
        const auto begin = std::chrono::steady_clock::now();
        copy(to_.get(), from_.get(), bytes_);
        best = std::min(
            best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
    }
    copy_ = kinds[0].first <= kinds[1].first ? copy_bytes : stream_bytes;
  }

  JobSession& job_;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte[]> from_;
  std::unique_ptr<std::byte[]> to_;
  Copy copy_ = copy_bytes;
};

}  // namespace

std::unique_ptr<Implementation> make_copies_implementation(JobSession& job) {
  return std::make_unique<CopiesImplementation>(job);
}

}  // namespace tutti::app::bench
