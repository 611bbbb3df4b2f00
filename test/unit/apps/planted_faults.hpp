#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/checks.hpp"

/// A healthy job, and faults to add to it.
namespace tutti::app::doctor::test {

using Job = std::vector<Facts>;

/// Two hosts with two ranks each, and one GPU per rank.
[[nodiscard]] Job healthy();

struct Fault {
  std::string name;
  Severity severity;
  std::string check;
  std::vector<std::string> contains;  ///< parts of the error
  std::string remedy;                 ///< a part of the remedy
  std::function<void(Job&)> plant;
};

/// Each must give exactly one finding.
[[nodiscard]] const std::vector<Fault>& faults();

}  // namespace tutti::app::doctor::test
