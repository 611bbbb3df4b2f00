// All-reduce, hierarchical: reduces inside hosts, then over rings of leaders between hosts; each
// leader distributes its slice inside its host.
//
//     2 hosts with 2 ranks; slice 0 and 1 are      rounds       2(h − 1) between hosts; inside, 2
//     led by the first and second rank of each                  if they share memory, else 2(m − 1)
//                                                  bytes sent   over each host's link
//        0 ◄─ reduce ─► 1    2 ◄─ reduce ─► 3                   2(h − 1)/h·n, for h hosts
//        0 ◄─ ring of slice 0 ─► 2                 scratch      –
//             1 ◄─ ring of slice 1 ─► 3            chosen       large buffers, several hosts with
//        0 ◄─ distribute ► 1 2 ◄─ distribute ► 3                several ranks
//
// The number of leaders per host is the number of ranks of the smallest host. The other ranks only
// send to and receive from leaders.
//
// Papers: as all_reduce_ring.cpp for the rings; N. T. Karonis, B. R. de Supinski, I. Foster, W.
// Gropp, E. Lusk and J. Bresnahan, Exploiting Hierarchy in Parallel Computer Networks to Optimize
// Collective Operation Performance, IPDPS 2000, for the hosts.
//
// Each pass moves the next piece of the buffer through all three phases, so that transfers inside
// hosts overlap with those between hosts. Rounds in shared memory are in program order: with them a
// pass reduces its piece before it moves that of the pass before between hosts.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

namespace {

class Hierarchy {
 public:
  explicit Hierarchy(const ScheduleArguments& arguments)
      : arguments_(arguments),
        groups_(arguments),
        mine_(own_buffer(arguments)),
        hosts_(groups_.hosts()),
        leaders_(groups_.min_ranks()) {
    const std::int64_t parts = std::int64_t{leaders_} * hosts_;
    shares_ = groups_.shares() && parts <= arguments.max_published;
    const auto chunk =
        std::clamp<std::int64_t>(arguments.max_published / parts, 1, arguments.chunk);
    schedule_.passes = divide_up(arguments.count, parts * chunk);
    chunk_ = divide_up(arguments.count, schedule_.passes * parts);
    stride_ = parts * chunk_;
  }

  Schedule run() {
    const int here = groups_.here();
    if (shares_) {
      // The last pass only moves the piece of the one before.
      ++schedule_.passes;
      if (here > 1) reduce_published();
      lag_ = stride_;
      run_rings();
      if (here > 1) distribute_published();
      return std::move(schedule_);
    }
    for (int turn = 1; turn < here; ++turn) add_up(turn);
    run_rings();
    for (int turn = 1; turn < here; ++turn) hand_out(turn);
    return std::move(schedule_);
  }

 private:
  void run_rings() {
    if (!leads(groups_.index())) return;
    for (int round = 0; round < hosts_ - 1; ++round) pass_sums_on(round);
    for (int round = 0; round < hosts_ - 1; ++round) pass_results_on(round);
  }

  [[nodiscard]] bool leads(int index) const { return index < leaders_; }
  [[nodiscard]] int ahead(int turn) const { return (groups_.index() + turn) % groups_.here(); }
  [[nodiscard]] int behind(int turn) const {
    return (groups_.index() + groups_.here() - turn) % groups_.here();
  }

  // The part of a leader's slice at a host's place in the ring, in this pass.
  [[nodiscard]] Piece part(int leader, std::int64_t host) const {
    return {.offset = {(std::int64_t{leader} * hosts_ + host) * chunk_ - lag_, 0, 0, stride_},
            .length = chunk_,
            .end = {arguments_.count}};
  }
  // A leader's slice of this pass, in one piece.
  [[nodiscard]] Piece whole_slice(int leader) const {
    const std::int64_t length = hosts_ * chunk_;
    return {.offset = {leader * length - lag_, 0, 0, stride_},
            .length = length,
            .end = {arguments_.count}};
  }
  // Parts of all hosts, one after the other.
  [[nodiscard]] Piece slice(int leader) const {
    auto first = part(leader, 0);
    first.offset.inner = chunk_;
    return first;
  }

  void append(std::int64_t count, std::vector<StepPattern> steps) {
    append_round(schedule_, {1, count, std::move(steps)});
  }

  void reduce_published() {
    const int own = groups_.index();
    std::vector<StepPattern> steps{publish_of(
        mine_, {.offset = {0, 0, 0, stride_}, .length = stride_, .end = {arguments_.count}})};
    for (int turn = 1; leads(own) && turn < groups_.here(); ++turn) {
      steps.push_back(read_reduce_of(groups_.rank_here(ahead(turn)), Buffer::output,
                                     turn == 1 ? mine_ : Buffer::output, whole_slice(own)));
    }
    steps.push_back(release_round());
    append(1, std::move(steps));
  }

  void distribute_published() {
    const int own = groups_.index();
    std::vector<StepPattern> steps{leads(own) ? publish_of(Buffer::output, whole_slice(own))
                                              : publish_nothing()};
    for (int turn = 1; turn < groups_.here(); ++turn) {
      if (!leads(ahead(turn))) continue;
      steps.push_back(
          read_of(groups_.rank_here(ahead(turn)), Buffer::output, whole_slice(ahead(turn))));
    }
    steps.push_back(release_round());
    append(1, std::move(steps));
  }

  void add_up(int turn) {
    std::vector<StepPattern> steps;
    if (leads(ahead(turn)))
      steps.push_back(send_to(groups_.rank_here(ahead(turn)), mine_, slice(ahead(turn))));
    if (leads(groups_.index()))
      steps.push_back(recv_reduce_from(groups_.rank_here(behind(turn)), Buffer::output,
                                       turn == 1 ? mine_ : Buffer::output, slice(groups_.index())));
    append(hosts_, std::move(steps));
  }

  // As in all_reduce_ring.cpp, between the hosts' leaders.
  void pass_sums_on(int round) {
    const Buffer sum = groups_.here() > 1 ? Buffer::output : mine_;
    const int own = groups_.host();
    append(1, {send_to(groups_.next(), round == 0 ? sum : Buffer::output,
                       part(groups_.index(), wrap(own - round))),
               recv_reduce_from(groups_.previous(), Buffer::output, sum,
                                part(groups_.index(), wrap(own - round - 1)))});
  }
  void pass_results_on(int round) {
    const int own = groups_.host();
    append(
        1,
        {send_to(groups_.next(), Buffer::output, part(groups_.index(), wrap(own + 1 - round))),
         recv_from(groups_.previous(), Buffer::output, part(groups_.index(), wrap(own - round)))});
  }
  [[nodiscard]] std::int64_t wrap(int host) const { return (host + hosts_) % hosts_; }

  void hand_out(int turn) {
    std::vector<StepPattern> steps;
    if (leads(groups_.index()))
      steps.push_back(
          send_to(groups_.rank_here(ahead(turn)), Buffer::output, slice(groups_.index())));
    if (leads(behind(turn)))
      steps.push_back(
          recv_from(groups_.rank_here(behind(turn)), Buffer::output, slice(behind(turn))));
    append(hosts_, std::move(steps));
  }

  const ScheduleArguments& arguments_;
  HostGroups groups_;
  Buffer mine_;
  int hosts_;
  int leaders_;
  std::int64_t chunk_ = 1;   // elements of a part
  std::int64_t stride_ = 1;  // elements of a pass
  std::int64_t lag_ = 0;     // elements by which the phases being appended are behind
  bool shares_ = false;
  Schedule schedule_{.algorithm = "hierarchical", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_reduce_hierarchical(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("hierarchical", arguments);
  if (arguments.count == 0) return {.algorithm = "hierarchical", .loops = {}};
  return Hierarchy(arguments).run();
}

}  // namespace tutti::algorithm
