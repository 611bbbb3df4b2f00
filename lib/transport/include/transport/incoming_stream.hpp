#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transport/request.hpp"
#include "transport/request_queue.hpp"

namespace tutti::transport {

/// The receiving end of one stream: puts bytes, in the order they come, where the posted requests
/// want them, and keeps those that came ahead of their request.
class IncomingStream {
 public:
  void post(RecvRequest& request);

  /// CollectiveChannel in the front request's own memory, where bytes may be put without a detour;
  /// empty if there is none or if they have to be reduced. Report what was put there by
  /// put_directly().
  [[nodiscard]] std::span<std::byte> direct_space() const;
  void put_directly(std::size_t bytes);
  /// The same by a copy, or by the front request's reduction. Returns the bytes that requests have
  /// taken; what remains is kept for later ones if `may_keep`.
  std::size_t put(std::span<const std::byte> bytes, bool may_keep);

  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }
  /// Bytes kept and not yet taken.
  [[nodiscard]] std::size_t kept() const { return kept_.size() - kept_taken_; }
  /// Takes the kept bytes into requests; returns how many.
  std::size_t take_kept();

 private:
  /// Gives the front request as much of `bytes` as it wants, and forgets it once it is done: its
  /// owner may use its memory for another at once. Returns how much; 0 without a request.
  std::size_t feed_front(std::span<const std::byte> bytes);

  RequestQueue<RecvRequest> requests_;  ///< none of them is done
  std::uint64_t posted_ = 0;
  std::uint64_t arrived_ = 0;
  std::vector<std::byte> kept_;
  std::size_t kept_taken_ = 0;
};

}  // namespace tutti::transport
