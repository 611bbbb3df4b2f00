#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "control/call_histories.hpp"
#include "control/data_sockets.hpp"
#include "control/failure_detector.hpp"
#include "control/status.hpp"

namespace tutti::control {

/// The current state of each rank: this one's, and the other ranks' on request.
class StatusExchange {
 public:
  /// Requests that the control thread sends a status request to all ranks.
  using SendRequest = std::function<void(std::uint32_t communicator)>;

  /// The references must outlive it.
  StatusExchange(const FailureDetector& detector, const CallHistories& histories,
                 const DataSockets& data_sockets, SendRequest send_request)
      : detector_(detector),
        histories_(histories),
        data_sockets_(data_sockets),
        send_request_(std::move(send_request)) {}
  StatusExchange(const StatusExchange&) = delete;
  StatusExchange& operator=(const StatusExchange&) = delete;

  /// Queries the state of all other ranks, as seen from a communicator; ranks that do not answer
  /// within `limit`, or before an agreed failure, are missing.
  [[nodiscard]] std::map<int, Status> ask(std::uint32_t communicator,
                                          std::chrono::milliseconds limit);
  /// This rank's own state, as seen from a communicator.
  [[nodiscard]] Status own(std::uint32_t communicator) const;

  // For the control thread:
  void on_status(int origin, std::uint32_t communicator, const Status& status);
  /// A rank has left or the job has failed, so ask() may wait for fewer answers.
  void on_change();

 private:
  const FailureDetector& detector_;
  const CallHistories& histories_;
  const DataSockets& data_sockets_;
  SendRequest send_request_;

  std::mutex query_mutex_;  ///< one query at a time: two calls may be late at once
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Status> answers_;
  std::uint32_t communicator_ = 0;  ///< of answers_
};

}  // namespace tutti::control
