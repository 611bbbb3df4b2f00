#include "choice.hpp"

#include <cmath>

namespace tutti::app::tune {
namespace {

/// Logarithm of the speed-ups' product over the first sizes, where it is largest and at the end.
struct Gain {
  std::size_t best_sizes = 0;
  double best = 0;
  double at_end = 0;
};

Gain gain_of(std::span<const Timed> times) {
  Gain gain;
  for (std::size_t i = 0; i < times.size(); ++i) {
    gain.at_end += std::log(times[i].nccl_us / times[i].direct_us);
    if (gain.at_end < gain.best) continue;
    gain.best = gain.at_end;
    gain.best_sizes = i + 1;
  }
  return gain;
}

}  // namespace

std::size_t direct_sizes(std::span<const Timed> times) {
  return gain_of(times).best_sizes;
}

std::size_t direct_up_to(std::span<const Timed> times) {
  const auto sizes = direct_sizes(times);
  return sizes == 0 ? 0 : times[sizes - 1].bytes;
}

bool is_settled(std::span<const Timed> times) {
  constexpr double loss = 4;  // for instance twice the time at two sizes
  constexpr std::size_t min_sizes = 2;
  const auto gain = gain_of(times);
  return times.size() >= gain.best_sizes + min_sizes && gain.best - gain.at_end >= std::log(loss);
}

}  // namespace tutti::app::tune
