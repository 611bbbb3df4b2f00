#pragma once

#include <optional>
#include <vector>

#include "store/channel.hpp"
#include "tutti/deadline.hpp"
#include "tutti/error.hpp"

namespace tutti::store {

/// One rank's end of the store: rank 0's, which serves, or a member's.
class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  virtual ~Side() = default;

  /// One numbered exchange, the same on all ranks. Each rank contributes `mine`, but to a broadcast
  /// only `root` does. Returns the result: of an all-gather every contribution after its length.
  virtual Bytes exchange(Exchange exchange, const Bytes& mine, int root, Deadline deadline) = 0;
  [[nodiscard]] std::size_t messages() const { return messages_; }

 protected:
  std::size_t messages_ = 0;
};

/// Of one rank's contribution. Set-up needs some KiB.
inline constexpr std::size_t max_contribution = std::size_t{256} << 10;
/// Of what a rank says when it joins.
inline constexpr std::size_t max_join = 1024;

[[nodiscard]] inline bool contributes(Exchange exchange, int rank, int root) {
  return exchange != Exchange::broadcast || rank == root;
}

/// For the wire: at most an hour.
[[nodiscard]] std::uint32_t patience_of(Deadline deadline);

/// The contributions of an all-gather's result, one a rank; nothing where it is no such table.
[[nodiscard]] std::optional<std::vector<Bytes>> split_gathered(const Bytes& table, int size);

[[nodiscard]] Bytes encode(const Error& error);
[[nodiscard]] Error decode_error(const Bytes& bytes);

/// What a rank says of itself when it joins.
struct Introduction {
  std::uint32_t size = 0;
  std::uint32_t pid = 0;
  std::string host;
  [[nodiscard]] static Introduction own(int size);
  [[nodiscard]] Bytes encode() const;
  [[nodiscard]] static Introduction decode(const Bytes& bytes);
  /// "rank 2 (node1, pid 4711)"
  [[nodiscard]] std::string describe(int rank) const;
};

}  // namespace tutti::store
