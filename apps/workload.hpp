#pragma once

#include <optional>

#include "buffer.hpp"
#include "exchange.hpp"
#include "job.hpp"

namespace tutti::app {

/// One rank's buffers of a problem: filled, handed to an operation, checked.
class Workload {
 public:
  /// Throws Error{system} where memory is too small.
  Workload(Job& job, const Problem& problem);

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// What an operation gets: addresses on the device or the host, of as many elements as the layout
  /// says.
  [[nodiscard]] void* send() { return send_.data(); }
  [[nodiscard]] void* recv() { return recv_.data(); }

  /// Writes this rank's input, and poison elsewhere.
  void prepare();
  /// Compares every element that is due. `input_too`: and an input that no result overwrites.
  [[nodiscard]] Wrong check(bool input_too = true);

 private:
  Problem problem_;
  Layout layout_;
  Exchange exchange_;
  Buffer send_;
  Buffer recv_;
};

/// Tutti's own call that solves `problem`. On the device returns when it is queued.
void call(Communicator& communicator, const Problem& problem, void* send, void* recv,
          std::optional<Stream> stream, const Call& settings);

}  // namespace tutti::app
