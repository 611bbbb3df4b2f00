#pragma once

#include <optional>
#include <vector>

#include "store/channel.hpp"
#include "tutti/deadline.hpp"
#include "tutti/error.hpp"

namespace tutti::store {

/// One rank's side of the store: rank 0's or a member's.
class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  virtual ~Side() = default;

  /// Runs one numbered operation, the same on all ranks. Each rank contributes `mine`, to a
  /// broadcast only `root`. Returns the result; of an all-gather, every contribution after its
  /// length.
  virtual Bytes exchange(StoreOperation operation, const Bytes& mine, int root,
                         Deadline deadline) = 0;
  [[nodiscard]] std::size_t messages() const { return messages_; }

 protected:
  std::size_t messages_ = 0;
};

/// Maximum size of a contribution. Set-up needs some KiB.
inline constexpr std::size_t max_contribution = std::size_t{256} << 10;
/// Maximum size of a join request.
inline constexpr std::size_t max_join = 1024;

[[nodiscard]] inline bool contributes(StoreOperation operation, int rank, int root) {
  return operation != StoreOperation::broadcast || rank == root;
}

/// Remaining milliseconds for the wire format, at most an hour.
[[nodiscard]] std::uint32_t remaining_ms(Deadline deadline);

/// Splits an all-gather's result into one contribution per rank; empty if malformed.
[[nodiscard]] std::optional<std::vector<Bytes>> split_gathered(const Bytes& table, int size);

[[nodiscard]] Bytes encode(const Error& error);
[[nodiscard]] Error decode_error(const Bytes& bytes);

/// A rank's first message to rank 0.
struct JoinRequest {
  std::uint32_t size = 0;
  std::uint32_t pid = 0;
  std::string host;
  [[nodiscard]] static JoinRequest own(int size);
  [[nodiscard]] Bytes encode() const;
  [[nodiscard]] static JoinRequest decode(const Bytes& bytes);
  /// "rank 2 (node1, pid 4711)"
  [[nodiscard]] std::string describe(int rank) const;
};

}  // namespace tutti::store
