#pragma once

#include <memory>
#include <string>

#include "communicator/backend.hpp"
#include "control/plane.hpp"
#include "device/library.hpp"
#include "tutti/deadline.hpp"

namespace tutti::device {

/// The device's context and the NCCL communicator, from set-up to the end.
class Session {
 public:
  struct Parts {
    std::shared_ptr<const Library<CudaCalls>> cuda;
    std::shared_ptr<const Library<NcclCalls>> nccl;
    control::Plane& plane;
    Backend& host;  ///< carries the unique id and the barrier before NCCL
  };

  /// Collective. Where rank 0 can't make the unique id, every rank throws the same Error{system};
  /// where NCCL does not come back before the deadline, Error{timeout}, and NCCL is never touched
  /// again.
  Session(Parts parts, int device_index, std::chrono::nanoseconds timeout);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Finalises and destroys, or after a verdict aborts, within a limit: past it NCCL is left alone.
  ~Session();

  [[nodiscard]] NcclComm comm() const { return comm_; }
  /// One byte of device memory, for barriers.
  [[nodiscard]] void* token() const;
  /// Ends NCCL's work after a failure, within a limit; past it NCCL is left alone. Afterwards the
  /// session is of no use.
  void abort() noexcept;
  [[nodiscard]] const std::string& phases() const { return phases_; }

  /// Makes the device current in the calling thread for as long as it lives.
  class Current {
   public:
    explicit Current(const Session& session);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

   private:
    const CudaCalls& cuda_;
    CudaContext before_ = nullptr;
    bool changed_ = false;
  };

  /// Throws the error that `result` means, if it means one.
  void check(NcclResult result, const char* doing) const;
  void check_cuda(CudaResult result, const char* doing) const;

  [[nodiscard]] const CudaCalls& cuda() const { return parts_.cuda->calls; }
  [[nodiscard]] const NcclCalls& nccl() const { return parts_.nccl->calls; }

 private:
  void open_device(int device_index);
  void end(bool in_order, std::chrono::nanoseconds limit);
  [[noreturn]] void fail(const char* doing, const std::string& reason) const;
  [[nodiscard]] NcclUniqueId share_unique_id(const CallSettings& settings);
  void join(const NcclUniqueId& id, std::chrono::nanoseconds timeout);

  Parts parts_;
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  NcclComm comm_ = nullptr;
  DeviceAddress token_ = 0;
  std::string phases_;
};

}  // namespace tutti::device
