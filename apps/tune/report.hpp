#pragma once

#include <string>
#include <vector>

#include "choice.hpp"
#include "device/tuning.hpp"

namespace tutti::app::tune {

[[nodiscard]] std::string table_heading();
/// One row for each size: operation, size, both times, and which path later jobs take.
[[nodiscard]] std::string table_rows(Operation operation, const std::vector<Timed>& times);

/// What `tutti tune` says in the end. `file` is empty if there is none to write.
[[nodiscard]] std::string conclusion(const device::TuningEntry& entry, const std::string& file);

}  // namespace tutti::app::tune
