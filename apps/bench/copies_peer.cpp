// What any library must copy at least where a rank can't read another's memory: a bound to hold
// times against.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/copy.hpp"
#include "peers.hpp"

namespace tutti::app::bench {
namespace {

/// In buffers, or blocks, that this rank copies: into memory that all see, out of it, and from its
/// own place to its own. Empty where no bound is known.
std::optional<double> units_copied(const CallSpec& spec) {
  const auto ranks = static_cast<double>(spec.ranks);
  const bool is_root = spec.rank == spec.root;
  const double own_block = is_in_place(spec) ? 0 : 1;
  switch (spec.operation) {
    case Operation::broadcast:
    case Operation::fan_out:
    case Operation::reduce:
      // Of a reduction: in all slices but the own, and the own one's result.
      return 1;
    case Operation::send_recv:  // out and in
    case Operation::all_reduce:
      // In: all slices but the own. Its result: to its own place, and for the others. Out: theirs.
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

class CopiesPeer final : public Peer {
 public:
  explicit CopiesPeer(JobSession& job)
      : Peer("copies", "lower bound: the bytes that must be copied"), job_(job) {}

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

  /// The faster kind of copy while all ranks copy.
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

std::unique_ptr<Peer> make_copies_peer(JobSession& job) {
  return std::make_unique<CopiesPeer>(job);
}

}  // namespace tutti::app::bench
