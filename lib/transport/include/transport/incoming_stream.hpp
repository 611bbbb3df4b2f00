#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transport/request.hpp"
#include "transport/request_queue.hpp"

namespace tutti::transport {

/// The receiving end of one stream: copies bytes, in order of arrival, into the posted requests,
/// and buffers unexpected ones, which arrived before their request.
class IncomingStream {
 public:
  void post(RecvRequest& request);

  /// Free space in the front request's memory for a read without a copy. Empty without a request,
  /// or if the bytes must be reduced. Report the bytes read by put_directly().
  [[nodiscard]] std::span<std::byte> direct_space() const;
  void put_directly(std::size_t bytes);
  /// Copies or reduces bytes into the requests. Returns the number that requests have consumed; the
  /// rest is buffered if `may_buffer`.
  std::size_t put(std::span<const std::byte> bytes, bool may_buffer);

  [[nodiscard]] bool has_request() const { return !requests_.empty(); }
  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }
  /// Bytes buffered and not yet consumed.
  [[nodiscard]] std::size_t buffered() const { return buffered_.size() - buffered_consumed_; }
  /// Moves buffered bytes into requests; returns how many.
  std::size_t take_buffered();
  /// The memory of buffered bytes, to be exchanged for other memory while there are none.
  [[nodiscard]] std::vector<std::byte>& memory() { return buffered_; }

 private:
  /// Fills the front request from `bytes` and removes it once done: its owner may reuse its memory.
  /// Returns the number of bytes consumed; 0 without a request.
  std::size_t fill_front(std::span<const std::byte> bytes);

  RequestQueue<RecvRequest> requests_;  ///< none of them is done
  std::uint64_t posted_ = 0;
  std::uint64_t arrived_ = 0;
  std::vector<std::byte> buffered_;
  std::size_t buffered_consumed_ = 0;
};

}  // namespace tutti::transport
