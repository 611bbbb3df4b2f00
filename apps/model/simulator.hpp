#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <queue>
#include <unordered_map>
#include <vector>

#include "model/actors.hpp"
#include "model/machine.hpp"
#include "model/window.hpp"

namespace tutti::model {

/// How a run ended.
struct Outcome {
  double seconds = 0;         ///< until the last rank is done
  std::int64_t messages = 0;  ///< of the actors
  bool stuck = false;         ///< a schedule did not come to its end: `seconds` means nothing
};

/// Runs schedules on a machine, event by event. What it knows:
///
/// - a rank has the engine's window, and a processor core, which it may share: a message costs time
///   at both ends, and copies in and out of it time by the byte;
/// - a host's link carries so many bytes a second each way; streams that want it at the same time
///   get turns, a segment each. A segment may leave one link and enter the next at the same time;
/// - inside a host, data is copied in by the sender and out by the receiver;
/// - a send is done when its bytes are copied, or, where more wait for the link than a socket's
///   buffer takes, when they have left.
class Simulator {
 public:
  Simulator(const Machine& machine, const Actors& actors, double element_bytes);
  [[nodiscard]] Outcome run();

  /// Begins where another run of the same has ended, with what the links have rested since.
  void continue_after(const Simulator& before);

 private:
  enum class Kind : std::uint8_t { step_done, link_free, segment_ready, segment_arrived };
  struct Event {
    double time;
    std::uint64_t number;  ///< those of one time keep their order
    Kind kind;
    std::int32_t what;    ///< actor, host, or flow
    std::int32_t detail;  ///< slot, or bytes
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  /// What one send step gives to its flow.
  struct PendingSend {
    double bytes_left;
    double first_ready;  ///< when its first segment is copied; the next follow at the copy rate
    double taken = 0;    ///< bytes that have left
    double segment;
    int slot;  ///< of the sender, to be finished when all have left; -1: is finished already
  };
  struct PendingReceive {
    double bytes_left;
    int slot;
    bool reduces;
    bool begun = false;
  };
  struct Flow {
    int from;
    int to;
    bool crosses_hosts;
    double receive_rate;
    std::deque<PendingSend> messages;
    std::deque<PendingReceive> receives;
    double arrived = 0;  ///< bytes that no receive has taken yet
    bool queued = false;
  };

  /// The flow that an actor used last each way: most have few.
  struct Latest {
    int peer = -1;
    int flow = -1;
  };

  /// What a shaped link passes at once, as of a time of the run.
  struct Bucket {
    double bytes = 0;
    double time = 0;
  };

  void add_event(double time, Kind kind, int what, int detail = 0);
  double use_core(int actor, double seconds);
  int flow_between(int from, int to, int distance);
  int flow_of(int actor, int peer, bool sends);
  void refill(int actor);
  void start(int actor, std::size_t slot);
  void start_ready(int actor, std::uint64_t slots);
  void start_send(int actor, std::size_t slot);
  void finish(int actor, std::size_t slot);
  void next_segment(int flow);
  void enqueue(int flow);
  void serve_link(int host);
  double time_on_link(Bucket& bucket, double time, double bytes) const;
  void arrive(int flow, double bytes);
  void feed(int flow);
  [[nodiscard]] double bytes_of(const algorithm::Step& step) const {
    return static_cast<double>(step.region.length()) * element_bytes_;
  }
  [[nodiscard]] int host_of(int actor) const;

  const Machine& machine_;
  const Actors& actors_;
  double element_bytes_;
  int hosts_ = 1;
  double now_ = 0;
  std::uint64_t events_ = 0;
  Outcome outcome_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> event_queue_;
  std::vector<Window> windows_;
  std::vector<int> core_of_;
  std::vector<double> core_free_;
  std::vector<int> numa_node_of_;
  std::vector<Flow> flows_;
  std::unordered_map<std::uint64_t, int> flow_by_ends_;
  std::vector<std::array<Latest, 2>> latest_;
  std::vector<std::deque<int>> queue_;  ///< of each host's link: streams that wait for a turn
  std::vector<double> waiting_;         ///< bytes that wait for each host's link
  std::vector<bool> link_busy_;
  std::vector<double> link_in_free_;
  std::vector<Bucket> out_buckets_;  ///< of each host's link, by direction
  std::vector<Bucket> in_buckets_;
};

}  // namespace tutti::model
