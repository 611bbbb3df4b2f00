#include "device/api_errors.hpp"

#include <fmt/format.h>

#include "device/inventory.hpp"

namespace tutti::device {
void ApiErrors::fail(const std::string& doing, const std::string& reason) const {
  if (detector_.job_failed()) throw detector_.agreed_error();
  const auto& peers = detector_.peers();
  throw detector_.report_and_wait(
      {.code = ErrorCode::system,
       .failed_ranks = {peers.rank()},
       .sentence = fmt::format("{}: {} failed: {}", peers.describe(peers.rank()), doing, reason),
       .origin = peers.rank()});
}

void ApiErrors::fail(CudaResult result, const char* doing) const {
  fail(std::string(doing), cuda_error_text(cuda_, result));
}

}  // namespace tutti::device
