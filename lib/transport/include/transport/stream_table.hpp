#pragma once

#include <map>
#include <utility>
#include <vector>

#include "transport/request.hpp"

namespace tutti::transport {

/// The streams of one half of a link, by key. Each call has a stream of its own, so the memory of
/// closed ones is kept for reuse.
template <class Stream>
class StreamTable {
 public:
  using Map = std::map<StreamKey, Stream>;
  using Iterator = typename Map::iterator;

  StreamTable() {
    spare_.reserve(max_spare);
    for (std::uint64_t i = 0; i < first_spare; ++i) {
      spare_.push_back(streams_.extract(streams_.try_emplace(StreamKey{.sequence = i}).first));
    }
  }

  [[nodiscard]] std::size_t size() const { return streams_.size(); }
  [[nodiscard]] Iterator begin() { return streams_.begin(); }
  [[nodiscard]] Iterator end() { return streams_.end(); }
  [[nodiscard]] Iterator find(const StreamKey& key) { return streams_.find(key); }
  /// The first stream with a greater key.
  [[nodiscard]] Iterator after(const StreamKey& key) { return streams_.upper_bound(key); }

  /// The stream of this key, and whether it is new.
  std::pair<Stream&, bool> open(const StreamKey& key) {
    const auto place = streams_.lower_bound(key);
    if (place != streams_.end() && place->first == key) return {place->second, false};
    if (spare_.empty()) return {streams_.try_emplace(place, key)->second, true};
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = key;
    return {streams_.insert(place, std::move(node))->second, true};
  }
  void close(Iterator stream) {
    if (spare_.size() == max_spare) {
      streams_.erase(stream);
      return;
    }
    spare_.push_back(streams_.extract(stream));
    spare_.back().mapped() = Stream();
  }
  void clear() { streams_.clear(); }

 private:
  // A peer is one call ahead, where it need not wait for this rank some more.
  static constexpr std::size_t first_spare = 4;
  // For non-blocking calls, of which some are in flight at once.
  static constexpr std::size_t max_spare = 16;

  Map streams_;
  std::vector<typename Map::node_type> spare_;
};

}  // namespace tutti::transport
