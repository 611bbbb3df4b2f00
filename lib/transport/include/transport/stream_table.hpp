#pragma once

#include <map>
#include <utility>

#include "transport/request.hpp"

namespace tutti::transport {

/// The streams of one half of a link, by key. Each message has a stream of its own, so the memory
/// of the last closed one is kept for reuse.
template <class Stream>
class StreamTable {
 public:
  using Map = std::map<StreamKey, Stream>;
  using Iterator = typename Map::iterator;

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
    spare_.key() = key;
    return {streams_.insert(place, std::move(spare_))->second, true};
  }
  void close(Iterator stream) {
    spare_ = streams_.extract(stream);
    spare_.mapped() = Stream();
  }
  void clear() { streams_.clear(); }

 private:
  Map streams_;
  typename Map::node_type spare_;
};

}  // namespace tutti::transport
