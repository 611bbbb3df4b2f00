#include "device/staging_plan.hpp"

#include <algorithm>
#include <numeric>

namespace tutti::device {
namespace {

std::size_t total(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

StagingPlan::StagingPlan(const CheckedCollective& call, int rank, int size, std::size_t area_bytes)
    : call_(call),
      blocks_(static_cast<std::size_t>(size)),
      send_extent_(shape_of(call.operation).send),
      recv_extent_(shape_of(call.operation).recv) {
  const auto& shape = shape_of(call.operation);
  one_buffer_ = shape.send == Extent::none && shape.recv == Extent::one;
  if (one_buffer_) {
    has_input_ = rank == call.root;
    has_output_ = !has_input_;
    send_extent_ = Extent::one;
  } else {
    has_input_ = call.send != nullptr;
    has_output_ = call.recv != nullptr;
  }
  const auto element_bytes = size_of(call.type);
  whole_ = shape.counts_differ;
  if (whole_) {
    const auto& recv_counts = call.recv_counts.empty() ? call.counts : call.recv_counts;
    whole_send_ = (send_extent_ == Extent::one ? call.count : total(call.counts)) * element_bytes;
    whole_recv_ = (recv_extent_ == Extent::one ? call.count : total(recv_counts)) * element_bytes;
    const bool is_all_to_all = call.operation == Operation::all_to_all_v;
    if (send_extent_ == Extent::all) displaced_send_ = {call.counts, call.displacements};
    if (recv_extent_ == Extent::all) {
      displaced_recv_ = {recv_counts, is_all_to_all ? call.recv_displacements : call.displacements};
    }
    return;
  }
  const bool has_blocks = send_extent_ == Extent::all || recv_extent_ == Extent::all;
  const auto blocks = has_blocks ? blocks_ : 1;
  chunk_elements_ = std::max<std::size_t>(1, area_bytes / (element_bytes * blocks));
  chunks_ = std::max<std::size_t>(1, (call.count + chunk_elements_ - 1) / chunk_elements_);
}

std::size_t StagingPlan::elements(std::size_t chunk) const {
  return std::min(chunk_elements_, call_.count - chunk * chunk_elements_);
}

std::size_t StagingPlan::pieces(Extent extent, const Displaced& displaced) const {
  if (extent == Extent::none) return 0;
  if (!displaced.begins.empty()) return displaced.begins.size();
  return extent == Extent::one || whole_ ? 1 : blocks_;
}

std::size_t StagingPlan::send_area_bytes() const {
  if (!has_input_) return 0;
  return whole_ ? whole_send_
                : pieces(send_extent_, {}) * std::min(chunk_elements_, call_.count) *
                      size_of(call_.type);
}

std::size_t StagingPlan::recv_area_bytes() const {
  if (!has_output_) return 0;
  return whole_ ? whole_recv_
                : pieces(recv_extent_, {}) * std::min(chunk_elements_, call_.count) *
                      size_of(call_.type);
}

StagedPiece StagingPlan::piece(Extent extent, const Displaced& displaced, std::size_t whole_bytes,
                               std::size_t chunk, std::size_t index) const {
  const auto element_bytes = size_of(call_.type);
  if (!displaced.begins.empty()) {
    return {.in_buffer = displaced.begins[index] * element_bytes,
            .in_area = total(displaced.counts.first(index)) * element_bytes,
            .bytes = displaced.counts[index] * element_bytes};
  }
  if (whole_) return {.bytes = whole_bytes};
  const auto part = elements(chunk);
  const auto block = extent == Extent::all ? index * call_.count : 0;
  return {.in_buffer = (block + chunk * chunk_elements_) * element_bytes,
          .in_area = index * part * element_bytes,
          .bytes = part * element_bytes};
}

StagedPiece StagingPlan::send_piece(std::size_t chunk, std::size_t index) const {
  return piece(send_extent_, displaced_send_, whole_send_, chunk, index);
}

StagedPiece StagingPlan::recv_piece(std::size_t chunk, std::size_t index) const {
  return piece(recv_extent_, displaced_recv_, whole_recv_, chunk, index);
}

const void* StagingPlan::input() const {
  return one_buffer_ ? call_.recv : call_.send;
}

CheckedCollective StagingPlan::call(std::size_t chunk, std::byte* send_area,
                                    std::byte* recv_area) const {
  auto part = call_;
  part.in_place = false;
  part.displacements = {};
  part.recv_displacements = {};
  if (!whole_) part.count = elements(chunk);
  if (one_buffer_) {
    part.recv = has_input_ ? send_area : recv_area;
    return part;
  }
  part.send = has_input_ ? send_area : nullptr;
  part.recv = has_output_ ? recv_area : nullptr;
  return part;
}

MessagePlan::MessagePlan(const Message& message, std::size_t area_bytes)
    : message_(message),
      element_bytes_(size_of(message.type)),
      chunk_elements_(std::max<std::size_t>(1, area_bytes / element_bytes_)) {
  const auto chunks_of = [&](std::size_t count) {
    return std::max<std::size_t>(1, (count + chunk_elements_ - 1) / chunk_elements_);
  };
  if (message.operation != Operation::recv) send_chunks_ = chunks_of(message.send_count);
  if (message.operation != Operation::send) recv_chunks_ = chunks_of(message.recv_count);
}

std::size_t MessagePlan::send_area_bytes() const {
  return send_chunks_ == 0 ? 0 : std::min(message_.send_count, chunk_elements_) * element_bytes_;
}

std::size_t MessagePlan::recv_area_bytes() const {
  return recv_chunks_ == 0 ? 0 : std::min(message_.recv_count, chunk_elements_) * element_bytes_;
}

StagedPiece MessagePlan::piece(std::size_t count, std::size_t chunks, std::size_t chunk) const {
  if (chunk >= chunks) return {};
  return {.in_buffer = chunk * chunk_elements_ * element_bytes_,
          .bytes = std::min(chunk_elements_, count - chunk * chunk_elements_) * element_bytes_};
}

StagedPiece MessagePlan::send_piece(std::size_t chunk) const {
  return piece(message_.send_count, send_chunks_, chunk);
}

StagedPiece MessagePlan::recv_piece(std::size_t chunk) const {
  return piece(message_.recv_count, recv_chunks_, chunk);
}

Message MessagePlan::message(std::size_t chunk, std::byte* send_area, std::byte* recv_area) const {
  auto part = message_;
  part.memory = Memory::host;
  if (chunk >= send_chunks_) part.operation = Operation::recv;
  if (chunk >= recv_chunks_) part.operation = Operation::send;
  part.send = send_area;
  part.send_count = send_piece(chunk).bytes / element_bytes_;
  part.recv = recv_area;
  part.recv_count = recv_piece(chunk).bytes / element_bytes_;
  return part;
}

}  // namespace tutti::device
