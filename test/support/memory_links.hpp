#pragma once

#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "transport/incoming_stream.hpp"
#include "transport/links.hpp"

namespace tutti::transport {

/// Links between any number of ranks of one process, without sockets and threads, for tests. A
/// sender's bytes go directly into the receiver's posted memory, and nothing is buffered: the
/// strictest flow control.
class MemoryNetwork {
 public:
  struct Stream {
    std::deque<SendRequest*> sends;
    IncomingStream receives;
  };
  using StreamName = std::tuple<int, int, StreamKey>;  ///< from, to, key

  Stream& stream(int from, int to, const StreamKey& key) { return streams_[{from, to, key}]; }
  void finish(int rank, const StreamKey& key);
  /// Moves at most `most` bytes of each stream. Returns true if any moved.
  bool move(std::size_t most);

 private:
  std::map<StreamName, Stream> streams_;
};

/// One rank's end of a MemoryNetwork.
class MemoryLinks final : public Links {
 public:
  /// `piece`: bytes moved per stream and progress() call; small pieces test the boundaries.
  MemoryLinks(MemoryNetwork& network, int rank, std::size_t piece)
      : network_(network), rank_(rank), piece_(piece) {}

  void post(SendRequest& request) override;
  void post(RecvRequest& request) override;
  void finish_collective(const StreamKey& key) override { network_.finish(rank_, key); }
  void finish_sent(const StreamKey& key, int) override { network_.finish(rank_, key); }
  void finish_received(const StreamKey& key, int) override { network_.finish(rank_, key); }
  bool progress(std::chrono::nanoseconds) override { return network_.move(piece_); }
  [[nodiscard]] LinkState state(int, bool) const override { return {true, {}}; }

 private:
  MemoryNetwork& network_;
  int rank_;
  std::size_t piece_;
};

}  // namespace tutti::transport
