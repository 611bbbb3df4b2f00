// Overhead of a call on device memory above NCCL's own: the calls below return immediately.
//
// | meson test -C build --benchmark device_call_cost --verbose
#include <fmt/format.h>

#include <chrono>

#include "communicator/state.hpp"
#include "device/provider.hpp"
#include "instant_calls.hpp"

namespace {

template <class Body>
double nanoseconds_of(Body body) {
  constexpr int calls = 1'000'000;
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) body();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / calls);
  }
  return best;
}

}  // namespace

int main() {
  using namespace tutti;
  using namespace tutti::device;
  const auto provider =
      std::make_shared<Provider>(device::test::instant_cuda(), device::test::instant_nccl());
  AloneBootstrap alone;
  Job job(alone, {}, {}, provider);
  auto& plane = *job.plane;
  HostBackend host(plane.detector(), plane.histories(), *job.progress_engine,
                   control::Group::whole_job(0, 1), {.chunk_bytes = 4096});
  const auto path = provider->open(
      plane.detector(), plane.statuses(), plane.histories().find(0), host,
      [](const Bytes& of_rank_0, Deadline) { return of_rank_0; }, true, std::chrono::seconds(5));
  auto& backend = *path.backend;

  float value = 0;
  float result = 0;
  const CallSettings settings{.timeout = std::chrono::seconds(60)};
  const CheckedCollective all_reduce{.operation = Operation::all_reduce,
                                     .type = Type::f32,
                                     .count = 1,
                                     .send = &value,
                                     .recv = &result};
  fmt::print("all_reduce: {:.0f} ns\n", nanoseconds_of([&] { backend.run(all_reduce, settings); }));
  const Message message{.operation = Operation::send_recv,
                        .send = &value,
                        .send_count = 1,
                        .to = 0,
                        .recv = &result,
                        .recv_count = 1,
                        .from = 0};
  fmt::print("send_recv: {:.0f} ns\n", nanoseconds_of([&] { backend.run(message, settings); }));
  fmt::print(
      "all_reduce, started and waited for: {:.0f} ns\n", nanoseconds_of([&] {
        static_cast<void>(backend.start(all_reduce, settings)->wait_for(std::chrono::seconds(1)));
      }));
  control::CallHistory history;
  fmt::print("of which the call history: {:.0f} ns\n", nanoseconds_of([&] {
               history.begin_collective({.operation = Operation::all_reduce, .count = 1});
             }));
  fmt::print("and a look at the clock: {:.0f} ns\n",
             nanoseconds_of([] { (void)std::chrono::steady_clock::now(); }));
  backend.synchronize(settings);
  return 0;
}
