#pragma once

#include <string>

#include "control/failure_detector.hpp"
#include "device/calls.hpp"

namespace tutti::device {

/// Turns errors of CUDA and NCCL on this rank into failures that all ranks agree on, since the
/// others wait for this rank on their devices. If another rank is the cause, the agreed failure
/// names it.
class ApiErrors {
 public:
  ApiErrors(control::FailureDetector& detector, const CudaCalls& cuda)
      : detector_(detector), cuda_(cuda) {}

  /// "rank 1 (node1, pid 4711): all_reduce failed: NCCL: remote error (6)"
  [[noreturn]] void fail(const std::string& doing, const std::string& reason) const;
  void check(CudaResult result, const char* doing) const {
    if (result != cuda_success) fail(result, doing);
  }

 private:
  [[noreturn]] void fail(CudaResult result, const char* doing) const;

  control::FailureDetector& detector_;
  const CudaCalls& cuda_;
};

}  // namespace tutti::device
