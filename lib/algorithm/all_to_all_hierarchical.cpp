// All-to-all, hierarchical: what the ranks of a host send to a rank of another host is collected
// through shared memory and sent as one message.
//
//     2 hosts with 2 ranks                        rounds        1 inside hosts, 1 between them
//                                                 bytes sent    to each rank of other hosts that
//        0 ◄─ blocks for 2 ─ 1                                  has this rank's index: a block of
//        0 ── both ─► 2                                         every rank of this host
//        1 ── both ─► 3   and back                scratch       these blocks; as many received if
//                                                               a host's ranks are not adjacent
//                                                 chosen        small blocks, several hosts with
//                                                               several ranks
//
// The sender is the receiver's counterpart, the rank with the same index on the sending host; a
// host with fewer ranks deals the receivers out in turn. Blocks that do not fit in one chunk of
// shared memory, and those of a single host, are exchanged as by all_to_all_pairwise.cpp.
//
// Without shared memory the other ranks of the host send the counterpart their blocks.
//
// Paper: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk and J. Bresnahan,
// Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation Performance,
// IPDPS 2000, for the hosts.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

namespace {

class AllToAllOfHosts {
 public:
  explicit AllToAllOfHosts(const ScheduleArguments& arguments)
      : arguments_(arguments),
        count_(arguments.count),
        blocks_(arguments),
        groups_(arguments),
        neighbours_(groups_.neighbours()),
        mine_(own_buffer(arguments)) {}

  Schedule run() {
    if (arguments_.in_place && !groups_.shares() && !neighbours_.empty()) move_contribution_aside();
    if (groups_.shares()) steps_.push_back(publish_of(mine_, whole(blocks_.total())));
    if (groups_.shares() || neighbours_.empty()) {
      for (int turn = 1; turn < groups_.hosts(); ++turn) {
        for (const int receiver : led_on(groups_.host_at(turn))) collect(receiver);
      }
      for (const int peer : neighbours_) {
        steps_.push_back(read_of(peer, Buffer::output, whole(blocks_.at(peer))));
        steps_.back().remote_shift = {begin_of(arguments_.rank) - begin_of(peer)};
      }
    } else {
      // All ranks of the host go through the receivers in the same order.
      for (int receiver = 0; receiver < arguments_.size; ++receiver) collect_messages(receiver);
    }
    if (!arguments_.in_place) {
      steps_.push_back(
          copy_of(Buffer::output, blocks_.at(arguments_.rank), mine_, begin_of(arguments_.rank)));
    }
    if (groups_.shares()) steps_.push_back(release_chunk());
    for (int turn = 1; turn < groups_.hosts(); ++turn) exchange(turn);
    schedule_.loops.push_back({1, 1, std::move(steps_)});
    return std::move(schedule_);
  }

 private:
  struct Bundle {
    int receiver;
    Region region;  // of scratch
  };

  [[nodiscard]] std::int64_t begin_of(int rank) const { return rank * count_; }
  [[nodiscard]] int counterpart(int rank) const {
    return groups_.counterpart_on(groups_.host(), rank);
  }
  /// Ranks of another host to which this rank sends its host's blocks.
  [[nodiscard]] std::vector<int> led_on(int host) const {
    std::vector<int> led;
    for (const int rank : groups_.ranks_of(host))
      if (counterpart(rank) == arguments_.rank) led.push_back(rank);
    return led;
  }
  Region reserve(std::int64_t elements) {
    const auto begin = schedule_.scratch_elements;
    schedule_.scratch_elements += elements;
    return {begin, begin + elements};
  }

  /// Blocks are received where others must be sent from.
  void move_contribution_aside() {
    const Region all = reserve(blocks_.total());  // at 0
    steps_.push_back(copy_of(Buffer::scratch, all, mine_, 0));
    mine_ = Buffer::scratch;
  }

  Region add_bundle(int receiver) {
    const Region all = reserve(groups_.here() * count_);
    bundles_.push_back({receiver, all});
    return all;
  }
  [[nodiscard]] Region part_of(const Region& bundle, int index) const {
    return {bundle.begin + index * count_, bundle.begin + (index + 1) * count_};
  }

  void collect(int receiver) {
    const Region all = add_bundle(receiver);
    for (int index = 0; index < groups_.here(); ++index) {
      const int peer = groups_.rank_here(index);
      const Region part = part_of(all, index);
      if (peer == arguments_.rank) {
        steps_.push_back(copy_of(Buffer::scratch, part, mine_, begin_of(receiver)));
      } else {
        steps_.push_back(read_of(peer, Buffer::scratch, whole(part)));
        steps_.back().remote_shift = {begin_of(receiver) - part.begin};
      }
    }
  }

  void collect_messages(int receiver) {
    const int leader = counterpart(receiver);
    if (leader != arguments_.rank) {
      return steps_.push_back(send_to(leader, mine_, whole(blocks_.at(receiver))));
    }
    const bool is_own = receiver == arguments_.rank;
    const Region all = is_own ? Region{} : add_bundle(receiver);
    for (int index = 0; index < groups_.here(); ++index) {
      const int peer = groups_.rank_here(index);
      if (peer == arguments_.rank) {
        if (!is_own) {
          steps_.push_back(
              copy_of(Buffer::scratch, part_of(all, index), mine_, begin_of(receiver)));
        }
      } else {
        steps_.push_back(recv_from(peer, is_own ? Buffer::output : Buffer::scratch,
                                   whole(is_own ? blocks_.at(peer) : part_of(all, index))));
      }
    }
  }

  /// Sends bundles to the host `turn` after this one, and receives one from the host `turn` before.
  void exchange(int turn) {
    const int target = groups_.host_at(turn);
    bool has_received = false;
    for (const Bundle& bundle : bundles_) {
      if (groups_.host_of(bundle.receiver) != target) continue;
      steps_.push_back(send_to(bundle.receiver, Buffer::scratch, whole(bundle.region)));
      // Beside the first send: partners wait for each other.
      if (!has_received) receive(groups_.host_at(-turn));
      has_received = true;
    }
    if (!has_received) receive(groups_.host_at(-turn));
    take_apart();
  }

  void receive(int host) {
    const int peer = groups_.counterpart_on(host, arguments_.rank);
    const auto& ranks = groups_.ranks_of(host);
    const bool are_adjacent = ranks.back() - ranks.front() + 1 == std::ssize(ranks);
    if (are_adjacent) {
      return steps_.push_back(
          recv_from(peer, Buffer::output, whole(blocks_.range(ranks.front(), ranks.back() + 1))));
    }
    received_ = reserve(std::ssize(ranks) * count_);
    received_from_ = host;
    steps_.push_back(recv_from(peer, Buffer::scratch, whole(received_)));
  }
  /// Copies the blocks of ranks that are not adjacent to their places.
  void take_apart() {
    if (received_.empty()) return;
    for (int index = 0; index < std::ssize(groups_.ranks_of(received_from_)); ++index) {
      steps_.push_back(copy_of(Buffer::output, blocks_.at(groups_.rank_at(received_from_, index)),
                               Buffer::scratch, part_of(received_, index).begin));
    }
    received_ = {};
  }

  const ScheduleArguments& arguments_;
  std::int64_t count_;
  Blocks blocks_;
  HostGroups groups_;
  std::vector<int> neighbours_;
  Buffer mine_;
  std::vector<Bundle> bundles_;
  Region received_;  // in scratch, until take_apart()
  int received_from_ = -1;
  std::vector<StepPattern> steps_;
  Schedule schedule_{.algorithm = "hierarchical", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_to_all_hierarchical(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("hierarchical", arguments);
  if (arguments.count == 0) return {.algorithm = "hierarchical", .loops = {}};
  const bool fits = arguments.count * arguments.size <= arguments.max_published;
  if (fits && HostGroups(arguments).hosts() > 1) return AllToAllOfHosts(arguments).run();
  auto schedule = all_to_all_pairwise(arguments);
  schedule.algorithm = "hierarchical";
  return schedule;
}

}  // namespace tutti::algorithm
