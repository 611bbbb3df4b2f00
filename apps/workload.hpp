#pragma once

#include "buffer.hpp"
#include "job_session.hpp"
#include "test_data.hpp"

namespace tutti::app {

/// One rank's buffers of a call, with their test data.
class Workload {
 public:
  /// Throws Error{system} where memory is too small.
  Workload(JobSession& job, const CallSpec& spec);

  [[nodiscard]] const CallSpec& spec() const { return spec_; }
  [[nodiscard]] const BufferLayout& layout() const { return layout_; }
  /// What an operation gets: addresses on the device or the host, of as many elements as the layout
  /// says.
  [[nodiscard]] void* send() { return send_.data(); }
  [[nodiscard]] void* recv() { return recv_.data(); }

  /// Writes this rank's input, and poison elsewhere.
  void prepare();
  /// Compares every element that is due. `input_too`: and an input that no result overwrites.
  [[nodiscard]] CheckResult check(bool input_too = true);

 private:
  CallSpec spec_;
  BufferLayout layout_;
  TestData data_;
  Buffer send_;
  Buffer recv_;
};

/// Runs `spec` by tutti. The buffers are on the device if the options have a
/// stream; and the call then returns when it is queued.
void call(Communicator& communicator, const CallSpec& spec, void* send, void* recv,
          const CallOptions& options);

}  // namespace tutti::app
