#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "communicator/backend.hpp"

namespace tutti::device {

/// A run of elements of a user's buffer, and its place in a staging area.
struct StagedPiece {
  std::size_t in_buffer = 0;  ///< bytes from the buffer's begin
  std::size_t in_area = 0;    ///< bytes from the area's begin
  std::size_t bytes = 0;
};

/// Splits a collective on device memory into chunks that fit into staging areas. Each chunk is the
/// same collective on a part of every block; it reads and writes the same elements, so in-place
/// calls need no special case. The chunks are the same on all ranks. v-forms are one chunk, since
/// not all ranks know all counts; their
/// displaced blocks are copied each by itself.
class StagingPlan {
 public:
  StagingPlan(const CheckedCollective& call, int rank, int size, std::size_t area_bytes);

  [[nodiscard]] std::size_t chunks() const { return chunks_; }
  /// Maximum bytes of a chunk in the area of each buffer.
  [[nodiscard]] std::size_t send_area_bytes() const;
  [[nodiscard]] std::size_t recv_area_bytes() const;

  [[nodiscard]] StagedPiece send_piece(std::size_t chunk, std::size_t index) const;
  [[nodiscard]] StagedPiece recv_piece(std::size_t chunk, std::size_t index) const;
  [[nodiscard]] std::size_t send_pieces() const {
    return has_input_ ? pieces(send_extent_, displaced_send_) : 0;
  }
  [[nodiscard]] std::size_t recv_pieces() const {
    return has_output_ ? pieces(recv_extent_, displaced_recv_) : 0;
  }
  /// The input; for broadcast and fan_out their only buffer.
  [[nodiscard]] const void* input() const;
  /// The chunk's call, on the staging areas.
  [[nodiscard]] CheckedCollective call(std::size_t chunk, std::byte* send_area,
                                       std::byte* recv_area) const;
  /// Broadcast and fan_out: input and output share one area.
  [[nodiscard]] bool one_buffer() const { return one_buffer_; }

 private:
  [[nodiscard]] std::size_t elements(std::size_t chunk) const;
  /// Blocks that are displaced in the user's buffer.
  struct Displaced {
    std::span<const std::size_t> counts;
    std::span<const std::size_t> begins;  ///< empty: they are not
  };
  [[nodiscard]] std::size_t pieces(Extent extent, const Displaced& displaced) const;
  [[nodiscard]] StagedPiece piece(Extent extent, const Displaced& displaced,
                                  std::size_t whole_bytes, std::size_t chunk,
                                  std::size_t index) const;

  CheckedCollective call_;
  std::size_t blocks_;
  Extent send_extent_;
  Extent recv_extent_;
  bool one_buffer_ = false;
  bool has_input_ = false;
  bool has_output_ = false;
  bool whole_ = false;          ///< a v-form
  std::size_t whole_send_ = 0;  ///< bytes of a v-form's buffers
  std::size_t whole_recv_ = 0;
  Displaced displaced_send_;
  Displaced displaced_recv_;
  std::size_t chunk_elements_ = 0;  ///< elements of each block in a chunk
  std::size_t chunks_ = 1;
};

/// The same for messages: both ends split at the same positions. Either direction may be the
/// longer.
class MessagePlan {
 public:
  MessagePlan(const Message& message, std::size_t area_bytes);

  [[nodiscard]] std::size_t chunks() const { return std::max(send_chunks_, recv_chunks_); }
  [[nodiscard]] std::size_t send_area_bytes() const;
  [[nodiscard]] std::size_t recv_area_bytes() const;
  /// Empty if the chunk has nothing to send or to receive.
  [[nodiscard]] StagedPiece send_piece(std::size_t chunk) const;
  [[nodiscard]] StagedPiece recv_piece(std::size_t chunk) const;
  /// The chunk's message, on the staging areas.
  [[nodiscard]] Message message(std::size_t chunk, std::byte* send_area,
                                std::byte* recv_area) const;

 private:
  [[nodiscard]] StagedPiece piece(std::size_t count, std::size_t chunks, std::size_t chunk) const;

  Message message_;
  std::size_t element_bytes_;
  std::size_t chunk_elements_;
  std::size_t send_chunks_ = 0;
  std::size_t recv_chunks_ = 0;
};

}  // namespace tutti::device
