// From times to the size up to which the direct path takes calls.
#include <random>

#include "support/catch.hpp"
#include "tune/choice.hpp"
#include "tune/report.hpp"

namespace tutti::app::tune {
namespace {

constexpr std::size_t kib = 1024;

/// Sizes from 4 KiB on, with these speed-ups of the direct path.
std::vector<Timed> with_speed_ups(const std::vector<double>& speed_ups) {
  std::vector<Timed> times;
  for (const double speed_up : speed_ups) {
    const auto bytes = 4 * kib << times.size();
    times.push_back({.bytes = bytes, .direct_us = 10, .nccl_us = 10 * speed_up});
  }
  return times;
}

std::size_t kib_for(const std::vector<double>& speed_ups) {
  return direct_up_to(with_speed_ups(speed_ups)) / kib;
}

}  // namespace

TEST_CASE("the direct path takes calls up to the size where NCCL becomes faster") {
  CHECK(kib_for({2, 2, 1.5, 1.1, 0.9, 0.7}) == 32);
  CHECK(kib_for({2, 1.01}) == 8);
  CHECK(kib_for({2, 1}) == 8);  // as fast is fast enough
  CHECK(kib_for({1, 1, 1}) == 16);
  CHECK(kib_for({2, 0.999}) == 4);
  CHECK(kib_for({0.9, 0.8}) == 0);
  CHECK(kib_for({0.5}) == 0);
  CHECK(direct_up_to({}) == 0);
  CHECK(direct_sizes(with_speed_ups({2, 2, 0.5})) == 2);
}

TEST_CASE("one disturbed time does not move the choice") {
  CHECK(kib_for({2, 2, 0.8, 2, 1.2, 0.7, 0.5}) == 64);    // a slow one among fast ones
  CHECK(kib_for({2, 2, 1.2, 0.8, 1.02, 0.7}) == 16);      // a lucky one behind the choice
  CHECK(kib_for({0.97, 2, 2, 1.2, 0.8}) == 32);           // the first
  CHECK(kib_for({0.5, 0.6, 1.05, 0.5}) == 0);             // nothing to gain
  CHECK(kib_for({1.5, 1.3, 0.9, 1.12, 0.8, 0.7}) == 32);  // 0.9 · 1.12 > 1
}

TEST_CASE("with noise of 5 % the choice is next to the true one, and loses little") {
  std::mt19937 random(34);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  const std::vector<double> truth{2, 2, 2, 1.9, 1.7, 1.5, 1.3, 1.12, 1.03, 0.93, 0.8, 0.7, 0.6};
  const std::size_t true_sizes = 9;
  for (int i = 0; i < 1000; ++i) {
    auto times = with_speed_ups(truth);
    for (auto& time : times) {
      time.direct_us *= noise(random);
      time.nccl_us *= noise(random);
    }
    const auto sizes = direct_sizes(times);
    CHECK(sizes + 1 >= true_sizes);
    CHECK(sizes <= true_sizes + 1);
  }
}

TEST_CASE("sizes that can't change the choice are not measured") {
  CHECK_FALSE(is_settled({}));
  CHECK_FALSE(is_settled(with_speed_ups({0.2})));  // perhaps disturbed
  CHECK(is_settled(with_speed_ups({0.5, 0.5})));
  CHECK(is_settled(with_speed_ups({2, 2, 0.5, 0.4})));
  CHECK_FALSE(is_settled(with_speed_ups({2, 2, 0.9, 0.8, 0.7})));  // as on H200: all are measured
  CHECK_FALSE(is_settled(with_speed_ups({2, 2, 0.1, 3})));
}

TEST_CASE("tune's table and conclusion") {
  auto times = with_speed_ups({2, 1.5, 0.5});
  times[1].direct_us = 1234.567;
  CHECK(table_heading() + table_rows(Operation::reduce_scatter, times) ==
        "operation             size    direct us      NCCL us  choice\n"
        "reduce_scatter       4 KiB        10.00        20.00  direct\n"
        "reduce_scatter       8 KiB      1234.57        15.00  NCCL\n"
        "reduce_scatter      16 KiB        10.00         5.00  NCCL\n");
  const device::TuningEntry entry{
      .key = {.card = "NVIDIA H200", .driver = "13.0", .nccl = "2.28.3", .ranks = 2},
      .limits = {4096 * kib, 2048 * kib, 0, 16 * kib, 12},
      .windows = {65536 * kib, 0, 0, 0, 0}};
  const std::string limits =
      "direct path up to: broadcast 4 MiB, fan_out 2 MiB, all_reduce (never), all_gather 16 KiB, "
      "reduce_scatter 12 B\n"
      "on memory from allocate_device() up to: broadcast 64 MiB, fan_out (never), all_reduce "
      "(never), all_gather (never), reduce_scatter (never)\n";
  CHECK(conclusion(entry, "/a/file") == limits +
                                            "written to /a/file, for jobs of 2 ranks on NVIDIA "
                                            "H200, driver for CUDA 13.0, NCCL 2.28.3\n");
  CHECK(conclusion(entry, "") ==
        limits + "TUTTI_TUNING is off, or there is no cache folder: nothing is written\n");
}

}  // namespace tutti::app::tune
