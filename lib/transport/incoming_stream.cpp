#include "transport/incoming_stream.hpp"

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"

namespace tutti::transport {
namespace {

// Longer messages use streaming stores: the caches would evict them before they are read.
constexpr std::size_t streamed_bytes = std::size_t{8} << 20;

/// Fills the request from `bytes`; returns the number of bytes consumed.
std::size_t fill(RecvRequest& request, std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), request.to.size() - request.received));
  if (request.reduce == nullptr) {
    const bool streams = request.to.size() >= streamed_bytes;
    const auto copy = streams ? stream_piece : copy_bytes;
    copy(request.to.data() + request.received, bytes.data(), bytes.size());
    request.received += bytes.size();
    if (streams && request.received == request.to.size()) finish_streaming();
    return bytes.size();
  }
  const auto reduce = [&](const std::byte* from, std::size_t elements) {
    const auto at = request.received - request.carried;
    request.reduce(request.to.data() + at, request.combine_with + at, from, elements);
  };
  auto rest = bytes;
  if (request.carried > 0) {
    const auto missing = std::min(request.element_bytes - request.carried, rest.size());
    std::memcpy(request.carry.data() + request.carried, rest.data(), missing);
    rest = rest.subspan(missing);
    if (request.carried + missing < request.element_bytes) {
      request.carried += missing;
      request.received += missing;
      return bytes.size();
    }
    reduce(request.carry.data(), 1);
    request.received += missing;
    request.carried = 0;
  }
  const auto elements = rest.size() / request.element_bytes;
  if (elements > 0) reduce(rest.data(), elements);
  const auto whole = elements * request.element_bytes;
  request.carried = rest.size() - whole;
  std::memcpy(request.carry.data(), rest.data() + whole, request.carried);
  request.received += rest.size();
  return bytes.size();
}

}  // namespace

void IncomingStream::post(RecvRequest& request) {
  if (request.done()) return;
  posted_ += request.to.size();
  requests_.push_back(request);
}

std::span<std::byte> IncomingStream::direct_space() const {
  if (requests_.empty() || requests_.front()->reduce != nullptr) return {};
  return requests_.front()->to.subspan(requests_.front()->received);
}

void IncomingStream::put_directly(std::size_t bytes) {
  arrived_ += bytes;
  auto& request = *requests_.front();
  request.received += bytes;
  if (request.done()) requests_.pop_front();
}

std::size_t IncomingStream::put(std::span<const std::byte> bytes, bool may_buffer) {
  std::size_t taken = 0;
  arrived_ += bytes.size();
  while (buffered() == 0 && taken < bytes.size() && !requests_.empty()) {
    taken += fill_front(bytes.subspan(taken));
  }
  if (may_buffer && taken < bytes.size()) {
    const auto rest = bytes.subspan(taken);
    buffered_.insert(buffered_.end(), rest.begin(), rest.end());
  }
  return taken;
}

std::size_t IncomingStream::take_buffered() {
  std::size_t taken = 0;
  while (buffered() > 0 && !requests_.empty()) {
    const auto bytes = fill_front(std::span(buffered_).subspan(buffered_consumed_));
    buffered_consumed_ += bytes;
    taken += bytes;
  }
  if (buffered() == 0) {
    buffered_.clear();
    buffered_consumed_ = 0;
  }
  return taken;
}

std::size_t IncomingStream::fill_front(std::span<const std::byte> bytes) {
  auto& request = *requests_.front();
  const auto taken = fill(request, bytes);
  if (request.done()) requests_.pop_front();
  return taken;
}

}  // namespace tutti::transport
