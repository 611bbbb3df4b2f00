// The context that is created in the background.
#include "device/prewarm.hpp"

#include <thread>

#include "fake_ranks.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {

TEST_CASE("a context is created ahead for the launcher's local rank, and released") {
  const auto reports = run_on_devices(2, {}, [](Rank& rank) -> std::string {
    const EnvironmentMap launched{{"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank.rank())}};
    auto prewarm = Prewarm::from(launched);
    expect(prewarm != nullptr, "the local rank was not seen");
    prewarm->wait(Deadline::after(20s));
    rank.communicator({.timeout = 20s, .backend = BackendChoice::nccl});
    prewarm.reset();
    // Released immediately, even before the thread is done. The fake driver ends the process if a
    // context is released too often.
    for (int i = 0; i < 20; ++i) static_cast<void>(Prewarm(rank.rank()));
    std::this_thread::sleep_for(100ms);
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("nothing happens without a local rank or a library") {
  CHECK(Prewarm::from({}) == nullptr);
  CHECK(Prewarm::from({{"OMPI_COMM_WORLD_LOCAL_RANK", "many"}}) == nullptr);
  const auto reports = run_on_devices(1, {{"CUDA_VISIBLE_DEVICES", ""}}, [](Rank&) -> std::string {
    const Prewarm prewarm(0);
    prewarm.wait(Deadline::after(20s));
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::device::test
