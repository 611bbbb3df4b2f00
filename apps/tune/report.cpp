#include "report.hpp"

#include <fmt/format.h>

#include "../text.hpp"
#include "base/shape.hpp"

namespace tutti::app::tune {

std::string table_heading() {
  return fmt::format("{:<16}{:>10}{:>13}{:>13}  choice\n", "operation", "size", "direct us",
                     "NCCL us");
}

std::string table_rows(Operation operation, const std::vector<Timed>& times) {
  const auto direct = direct_sizes(times);
  std::string text;
  for (std::size_t i = 0; i < times.size(); ++i) {
    text += fmt::format("{:<16}{:>10}{:>13.2f}{:>13.2f}  {}\n", name(operation),
                        size_text(times[i].bytes), times[i].direct_us, times[i].nccl_us,
                        i < direct ? "direct" : "NCCL");
  }
  return text;
}

namespace {

std::string sentence(const char* begin, const device::TunedLimits& limits) {
  std::string text = begin;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", name(device::tuned_operations.at(i)),
                        limits.at(i) == 0 ? "(never)" : size_text(limits.at(i)));
  }
  return text + "\n";
}

}  // namespace

std::string conclusion(const device::TuningEntry& entry, const std::string& file) {
  const auto text = sentence("direct path up to:", entry.limits) +
                    sentence("on memory from allocate_device() up to:", entry.windows);
  return file.empty()
             ? text + "TUTTI_TUNING is off, or there is no cache folder: nothing is written\n"
             : text + fmt::format("written to {}, for jobs of {}\n", file, entry.key.text());
}

}  // namespace tutti::app::tune
