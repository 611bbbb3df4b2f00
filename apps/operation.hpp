#pragma once

#include <functional>
#include <string>

#include "job.hpp"
#include "options.hpp"

namespace tutti::app {

/// One run of an operation on one rank.
struct Outcome {
  std::string
      line;  ///< "received 4 MiB from rank 0, verified"; several lines with line ends between
  std::string wrong;  ///< empty if all data is right
};

/// An operation's three parts. `run` alone is timed.
struct Operation {
  std::string name;       ///< as people write it: "fan-out"
  std::size_t bytes = 0;  ///< true size; 0 also where the operation moves no data
  bool moves_data = true;
  std::function<void()> prepare;
  std::function<void()> run;
  std::function<Outcome()> check;
};

/// Runs it `repeat` times, checks each, prints what each rank did and the summary. Returns the exit
/// status. Collective.
int perform(Job& job, const OperationOptions& options, const Operation& operation);

/// Elements that `bytes` make up, rounded up to whole ones.
[[nodiscard]] std::size_t element_count(const OperationOptions& options);

}  // namespace tutti::app
