#pragma once

#include <variant>

#include "buffer.hpp"
#include "job_session.hpp"
#include "test_data.hpp"

namespace tutti::app {

/// One rank's buffers of a call, with test data.
class Workload {
 public:
  /// Throws Error{system} if the allocation fails.
  Workload(JobSession& job, const CallSpec& spec);

  [[nodiscard]] const CallSpec& spec() const { return spec_; }
  [[nodiscard]] const BufferLayout& layout() const { return layout_; }
  /// Pointers for the operation, to device or host memory. Lengths are those of the layout.
  [[nodiscard]] void* send() { return send_.data(); }
  [[nodiscard]] void* recv() { return recv_.data(); }

  /// Writes this rank's input and fills the rest with poison.
  void prepare();
  /// Compares every element of the result. If `input_too`, it also compares the input, unless the
  /// result overwrites it.
  [[nodiscard]] CheckResult check(bool input_too = true);

 private:
  CallSpec spec_;
  BufferLayout layout_;
  TestData data_;
  Buffer send_;
  Buffer recv_;
};

/// The call of tutti that `spec` describes, built once so that a measurement repeats only the call.
class PreparedCall {
 public:
  PreparedCall() = default;
  PreparedCall(const CallSpec& spec, void* send, void* recv, Memory memory);
  void run(Communicator& communicator, const CallOptions& options) const;

 private:
  std::variant<std::monostate, Collective, Message> call_;  ///< std::monostate: a barrier
};

/// Runs `spec` with tutti. If the options have a stream, the buffers are on the device, and the
/// function returns when the call is queued.
void call(Communicator& communicator, const CallSpec& spec, void* send, void* recv,
          const CallOptions& options);

}  // namespace tutti::app
