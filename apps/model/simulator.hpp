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

/// Result of a simulation.
struct Outcome {
  double seconds = 0;         ///< time until the last rank completes
  std::int64_t messages = 0;  ///< sent by the actors
  bool stuck = false;         ///< a schedule did not complete; `seconds` is invalid
};

/// Discrete-event simulation of schedules on a machine. The model:
///
/// - A rank has the engine's window and a core, which it may share. A message costs time at both
///   ends; copies into and out of it cost time per byte.
/// - A host's link has a bandwidth in each direction. Flows share it round-robin, one segment at a
///   time. A segment can leave one link and enter the next at the same time.
/// - Inside a host, the sender copies data in and the receiver copies it out.
/// - A send completes when its bytes are copied. If more bytes wait for the link than a socket
///   buffers, it completes when they have left.
class Simulator {
 public:
  Simulator(const Machine& machine, const Actors& actors, double element_bytes);
  [[nodiscard]] Outcome run();

  /// Starts with the token buckets of a previous run of the same schedules.
  void continue_after(const Simulator& before);

 private:
  enum class Kind : std::uint8_t {
    step_done,
    link_free,
    segment_ready,
    segment_arrived,
    published,
  };
  struct Event {
    double time;
    std::uint64_t number;  ///< breaks ties: events of the same time keep their order
    Kind kind;
    std::int32_t what;    ///< actor, host or flow
    std::int32_t detail;  ///< slot, or bytes
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  /// A send step that its flow has not transmitted completely.
  struct PendingSend {
    double bytes_left;
    double first_ready;  ///< when the first segment is copied; later ones follow at the copy rate
    double taken = 0;    ///< bytes that have been transmitted
    double segment;
    int slot;  ///< of the sender, to be finished after the last byte has left; -1: already finished
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
    double arrived = 0;  ///< bytes that no receive has consumed
    bool queued = false;
  };

  /// The flow that an actor used last in each direction, cached.
  struct Latest {
    int peer = -1;
    int flow = -1;
  };

  /// State of a token bucket at a time of the simulation.
  struct Bucket {
    double bytes = 0;
    double time = 0;
  };

  /// An actor's chunks in the shared memory of its host.
  struct Chunks {
    std::size_t published = 0;
    struct Reader {
      int actor;
      std::size_t slot;
    };
    std::vector<Reader> readers;  ///< that wait for a chunk of this actor
  };

  void add_event(double time, Kind kind, int what, int detail = 0);
  double occupy_core(int actor, double seconds);
  int flow_between(int from, int to, int distance);
  int flow_of(int actor, int peer, bool sends);
  void refill(int actor);
  void start(int actor, std::size_t slot);
  void start_ready(int actor, std::uint64_t slots);
  void start_send(int actor, std::size_t slot);
  void start_publish(int actor, std::size_t slot);
  void read(int actor, std::size_t slot);
  void finish(int actor, std::size_t slot);
  void next_segment(int flow);
  void enqueue(int flow);
  void serve_link(int host);
  double time_on_link(Bucket& bucket, double time, double bytes) const;
  void arrive(int flow, double bytes);
  void deliver(int flow);
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
  std::vector<Chunks> chunks_;
  std::vector<Flow> flows_;
  std::unordered_map<std::uint64_t, int> flow_by_ends_;
  std::vector<std::array<Latest, 2>> latest_;
  std::vector<std::deque<int>> queue_;  ///< per host's link: flows that wait for their turn
  std::vector<double> waiting_;         ///< bytes queued for each host's link
  std::vector<bool> link_busy_;
  std::vector<double> link_in_free_;
  std::vector<Bucket> out_buckets_;  ///< per host's link and direction
  std::vector<Bucket> in_buckets_;
};

}  // namespace tutti::model
