// A repeated call between hosts allocates no memory in the calling thread.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace {

/// Of this thread; the control thread may allocate.
thread_local std::size_t allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const auto rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other forms of new and delete call these. Inlined, GCC would warn of the mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tutti::test {
namespace {

constexpr int warm_up_calls = 10;
constexpr int counted_calls = 100;

/// Makes the same call many times. Returns a sentence if the later ones have allocated.
template <class Call>
std::string count_allocations(Communicator& communicator, const std::string& what, Call call) {
  for (int i = 0; i < warm_up_calls; ++i) call(i);
  const auto before = allocations;
  for (int i = 0; i < counted_calls; ++i) call(i);
  const auto counted = allocations - before;
  communicator.barrier();  // first calls of the next kind allocate, also in the ranks that receive
  if (counted == 0) return {};
  return fmt::format("{} calls of {} allocated {} times; ", counted_calls, what, counted);
}

/// Each rank on a host of its own.
Communicator& communicator_over_tcp(Rank& rank) {
  ::setenv("TUTTI_HOST_ID", fmt::format("host{}", rank.rank()).c_str(), 1);
  return rank.communicator();
}

std::string count_of_blocking_calls(Rank& rank) {
  auto& communicator = communicator_over_tcp(rank);
  const auto size = static_cast<std::size_t>(rank.size());
  // Connects all pairs of ranks.
  std::vector<int> numbers(size);
  communicator.all_to_all(in_place, numbers);
  communicator.barrier();
  std::string counted;
  const auto count = [&](const std::string& what, auto call) {
    counted += count_allocations(communicator, what, call);
  };
  for (const std::size_t bytes : {4U, 64U << 10, 1U << 20}) {
    std::vector<float> data(bytes / sizeof(float), 1.0F);
    std::vector<float> all(data.size() * size);
    std::vector<float> result(data.size());
    const auto text = [&](const char* operation) {
      return fmt::format("{} of {} B", operation, bytes);
    };
    count(text("all_reduce"), [&](int) { communicator.all_reduce(data, result, sum); });
    count(text("all_reduce in place, maximum"),
          [&](int) { communicator.all_reduce(in_place, data, max); });
    count(text("all_reduce, average"),
          [&](int) { communicator.all_reduce(data, result, average); });
    // The barriers keep the ranks together: what comes from ranks that are far ahead is buffered.
    count(text("broadcast"), [&](int i) {
      communicator.broadcast(data, i % rank.size());
      communicator.barrier();
    });
    count(text("reduce"), [&](int i) {
      communicator.reduce(data, result, sum, i % rank.size());
      communicator.barrier();
    });
    count(text("all_gather"), [&](int) { communicator.all_gather(data, all); });
    count(text("reduce_scatter"), [&](int) { communicator.reduce_scatter(all, data, sum); });
    count(text("all_to_all"), [&](int) { communicator.all_to_all(in_place, all); });
    const std::vector<std::size_t> counts(size, data.size());
    count(text("all_gather_v"), [&](int) { communicator.all_gather_v(data, all, counts); });
    const int next = (rank.rank() + 1) % rank.size();
    const int previous = (rank.rank() + rank.size() - 1) % rank.size();
    count(text("send_recv"), [&](int) {
      communicator.send_recv(data, next, result, previous);
      communicator.barrier();
    });
  }
  count("barrier", [&](int) { communicator.barrier(); });
  communicator.finalize();
  return counted;
}

}  // namespace

TEST_CASE("the counter sees allocations of every form") {
  const auto before = allocations;
  const auto one = std::make_unique<int>(1);
  const auto several = std::make_unique<int[]>(7);
  const std::vector<int> numbers(9, *one);
  struct alignas(128) Aligned {
    char bytes[128];
  };
  const auto aligned = std::make_unique<Aligned>();
  CHECK(allocations == before + 4);
}

TEST_CASE("repeated blocking calls over TCP allocate nothing in their thread") {
  for (const int ranks : {2, 3, 4}) {
    const auto reports = run_ranks(ranks, count_of_blocking_calls, 200s);
    INFO(describe(reports));
    REQUIRE(errors_of(reports) == "");
    for (const auto& report : reports) CHECK(report.text == "");
  }
}

}  // namespace tutti::test
