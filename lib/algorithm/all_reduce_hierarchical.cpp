// All-reduce, hierarchical: reduces inside hosts, then halves and doubles between leaders of all
// hosts; each leader distributes its slice inside its host.
//
//     2 hosts with 2 ranks; slice 0 and 1 are      rounds       2·ceil(log2 h) between hosts;
//     led by the first and second rank of each                  inside, 2 if they share memory,
//                                                               else 2(m − 1)
//        0 ◄─ reduce ─► 1    2 ◄─ reduce ─► 3      bytes sent   over each host's link
//        0 ◄─── slice 0 ───► 2                                  2(h − 1)/h·n, for h hosts
//             1 ◄─── slice 1 ───► 3                scratch      –
//        0 ◄─ distribute ► 1 2 ◄─ distribute ► 3   chosen       large buffers, several hosts with
//                                                               several ranks
//
// The number of leaders per host is the number of ranks of the smallest host. The other ranks only
// send to and receive from leaders.
//
// Papers: as all_reduce_rabenseifner.cpp for the exchange between hosts; N. T. Karonis, B. R. de
// Supinski, I. Foster, W. Gropp, E. Lusk and J. Bresnahan, Exploiting Hierarchy in Parallel
// Computer Networks to Optimize Collective Operation Performance, IPDPS 2000, for the hosts.
//
// The buffer is cut into segments. Pass t works on segment t in the first phase, on segment t - 1
// in the next one, and so on: a pass waits for what earlier passes have sent, never for its own.
// A call of one segment takes the phases one after the other.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "circulant.hpp"
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
    const auto segments = divide_up(arguments.count, parts * chunk);
    chunk_ = divide_up(arguments.count, segments * parts);
    stride_ = parts * chunk_;
    is_pipelined_ = segments > 1;
    schedule_.passes = segments;
  }

  Schedule run() {
    const int here = groups_.here();
    if (shares_ && here > 1) reduce_published();
    for (int turn = 1; !shares_ && turn < here; ++turn) add_up(turn);
    const auto rounds = Circulant::rounds(hosts_);
    exchange(rounds);
    next_phase();
    if (shares_ && here > 1) distribute_published();
    for (int turn = 1; !shares_ && turn < here; ++turn) hand_out(turn);
    if (is_pipelined_) schedule_.passes += phase_;
    return std::move(schedule_);
  }

 private:
  /// Of the next phase's steps, in all of a pass.
  void next_phase() {
    ++phase_;
    lag_ = is_pipelined_ ? phase_ * stride_ : 0;
  }

  /// Scatters sums by halving, then gathers results by doubling.
  void exchange(const std::vector<CirculantRound>& rounds) {
    Buffer sum = groups_.here() > 1 ? Buffer::output : mine_;
    for (const auto& round : rounds) {
      next_phase();
      if (leads(groups_.index())) halve(round, sum);
      sum = Buffer::output;
    }
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
      next_phase();
      if (leads(groups_.index())) double_up(*round);
    }
  }

  [[nodiscard]] bool leads(int index) const { return index < leaders_; }
  [[nodiscard]] int ahead(int turn) const { return (groups_.index() + turn) % groups_.here(); }
  [[nodiscard]] int behind(int turn) const {
    return (groups_.index() + groups_.here() - turn) % groups_.here();
  }
  /// The leader of this rank's slice on the host `distance` after its own.
  [[nodiscard]] int leader_at(int distance) const {
    return groups_.rank_at(groups_.host_at(distance), groups_.index());
  }

  /// In the segment of this phase, the parts of a leader's slice that belong to these hosts.
  [[nodiscard]] Piece parts(int leader, std::int64_t first_host, std::int64_t last_host) const {
    return {.offset = {(std::int64_t{leader} * hosts_ + first_host) * chunk_ - lag_, 0, 0, stride_},
            .length = (last_host - first_host) * chunk_,
            .end = {arguments_.count}};
  }
  [[nodiscard]] Piece whole_slice(int leader) const { return parts(leader, 0, hosts_); }
  [[nodiscard]] Piece slices(int first, int last) const {
    return parts(first, 0, std::int64_t{last - first} * hosts_);
  }
  /// Parts of all hosts, one after the other.
  [[nodiscard]] Piece slice(int leader) const {
    auto first = parts(leader, 0, 1);
    first.offset.inner = chunk_;
    return first;
  }

  void append(std::int64_t count, std::vector<StepPattern> steps) {
    append_round(schedule_, {1, count, std::move(steps)});
  }

  void reduce_published() {
    const int own = groups_.index();
    // Nobody reads a rank's contribution to the slice that it leads.
    const int first = own == 0 ? 1 : 0;
    const int last = own == leaders_ - 1 ? leaders_ - 1 : leaders_;
    std::vector<StepPattern> steps{first < last ? publish_of(mine_, slices(first, last))
                                                : publish_nothing()};
    for (int turn = 1; leads(own) && turn < groups_.here(); ++turn) {
      steps.push_back(read_reduce_of(groups_.rank_here(ahead(turn)), Buffer::output,
                                     turn == 1 ? mine_ : Buffer::output, whole_slice(own)));
    }
    steps.push_back(release_chunk());
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
    steps.push_back(release_chunk());
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

  void halve(const CirculantRound& round, Buffer sum) {
    const int own = groups_.index();
    const auto given = Circulant::positions(groups_.host(), round.near, round.far, hosts_);
    const auto added = Circulant::positions(groups_.host(), 0, round.far - round.near, hosts_);
    for (std::size_t i = 0; i < given.size(); ++i)
      append(1, {send_to(leader_at(round.near), sum, parts(own, given[i].begin, given[i].end)),
                 recv_reduce_from(leader_at(-round.near), Buffer::output, sum,
                                  parts(own, added[i].begin, added[i].end))});
    // As in all_reduce_rabenseifner.cpp: nothing has been added to the last part.
    if (sum == Buffer::output || 2 * round.near == round.far) return;
    for (const auto& last :
         Circulant::positions(groups_.host(), round.near - 1, round.near, hosts_))
      append(1, {local(StepKind::copy, Buffer::output, sum, parts(own, last.begin, last.end))});
  }

  void double_up(const CirculantRound& round) {
    const int own = groups_.index();
    const auto given = Circulant::positions(groups_.host(), 0, round.far - round.near, hosts_);
    const auto taken = Circulant::positions(groups_.host(), round.near, round.far, hosts_);
    for (std::size_t i = 0; i < given.size(); ++i)
      append(1, {send_to(leader_at(-round.near), Buffer::output,
                         parts(own, given[i].begin, given[i].end)),
                 recv_from(leader_at(round.near), Buffer::output,
                           parts(own, taken[i].begin, taken[i].end))});
  }

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
  std::int64_t stride_ = 1;  // elements of a segment
  std::int64_t phase_ = 0;
  std::int64_t lag_ = 0;  // elements from this phase's segment to that of the first phase
  bool is_pipelined_ = false;
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
