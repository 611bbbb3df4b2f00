#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/checks.hpp"

/// A healthy job, and faults to plant in it.
namespace tutti::app::doctor::test {

using Job = std::vector<Facts>;

/// Two hosts with two ranks each, and a GPU a rank.
[[nodiscard]] Job healthy();

struct Fault {
  std::string name;
  Severity severity;
  std::string check;
  std::vector<std::string> contains;  ///< parts of the sentence
  std::string remedy;                 ///< part of it
  std::function<void(Job&)> plant;
};

/// Each is found alone where it alone is planted.
[[nodiscard]] const std::vector<Fault>& faults();

}  // namespace tutti::app::doctor::test
