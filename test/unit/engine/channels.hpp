#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/published_chunks.hpp"
#include "transport/shared_segment.hpp"

namespace tutti::engine::test {

/// A collective channel as each of its members sees it, all in this process. They use one mapping:
/// ThreadSanitizer tells accesses apart by their address.
class Channels {
 public:
  explicit Channels(int members)
      : segment_(std::make_shared<transport::SharedSegment>(
            transport::SharedSegment::make_file(members), 0, members)) {
    std::vector<int> local_ranks;
    for (int member = 0; member < members; ++member) local_ranks.push_back(member);
    for (int member = 0; member < members; ++member) {
      channels_.emplace_back(segment_, 0, 0, local_ranks, member);
    }
  }

  transport::CollectiveChannel& of(int member) {
    return channels_[static_cast<std::size_t>(member)];
  }
  /// The communicator has ranks on other hosts: member m is rank 2m + 1 of `ranks`.
  static constexpr std::size_t ranks = 8;
  [[nodiscard]] static int rank_of(int member) { return 2 * member + 1; }
  [[nodiscard]] std::vector<int> member_of_rank() const {
    std::vector<int> result(ranks, -1);
    for (int member = 0; member < static_cast<int>(channels_.size()); ++member) {
      result[static_cast<std::size_t>(rank_of(member))] = member;
    }
    return result;
  }

 private:
  std::shared_ptr<transport::SharedSegment> segment_;
  std::deque<transport::CollectiveChannel> channels_;
};

/// The chunks of one call on all members.
class CallOfAll {
 public:
  CallOfAll(Channels& channels, int members, std::uint64_t chunks, std::uint64_t fingerprint = 1)
      : member_of_rank_(channels.member_of_rank()) {
    for (int member = 0; member < members; ++member) {
      chunks_.emplace_back(channels.of(member), member_of_rank_, fingerprint, chunks);
    }
  }
  CallOfAll(const CallOfAll&) = delete;
  CallOfAll& operator=(const CallOfAll&) = delete;

  PublishedChunks& of(int member) { return chunks_[static_cast<std::size_t>(member)]; }

 private:
  std::vector<int> member_of_rank_;
  std::deque<PublishedChunks> chunks_;
};

}  // namespace tutti::engine::test
