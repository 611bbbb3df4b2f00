// The streams of one half of a link.
#include "transport/stream_table.hpp"

#include <algorithm>
#include <vector>

#include "support/catch.hpp"

namespace tutti::transport::test {
namespace {

struct Stream {
  int cleared = 0;
  std::vector<int> kept;
};

StreamKey key(std::uint64_t sequence) {
  return {.communicator = 1, .kind = StreamKind::message, .tag = 0, .sequence = sequence};
}

}  // namespace

TEST_CASE("a stream is new when opened first and after it was closed") {
  StreamTable<Stream> table;
  CHECK(table.open(key(1)).second);
  CHECK(!table.open(key(1)).second);
  table.open(key(1)).first.cleared = 7;
  table.open(key(1)).first.kept = {1, 2, 3};
  table.close(table.find(key(1)));
  CHECK(table.find(key(1)) == table.end());
  for (const std::uint64_t next : {2U, 1U}) {
    const auto [stream, is_new] = table.open(key(next));
    CHECK(is_new);
    CHECK(stream.cleared == 0);
    CHECK(stream.kept.empty());
  }
  CHECK(table.size() == 2);
}

TEST_CASE("streams are ordered by key, also in reused memory") {
  StreamTable<Stream> table;
  for (const std::uint64_t sequence : {5U, 3U, 4U}) table.open(key(sequence));
  table.close(table.find(key(3)));
  table.open(key(9));
  table.open(key(1));
  std::vector<std::uint64_t> order;
  for (const auto& [at, stream] : table) order.push_back(at.sequence);
  CHECK(order == std::vector<std::uint64_t>{1, 4, 5, 9});
  CHECK(table.after(key(4))->first == key(5));
  CHECK(table.after(key(9)) == table.end());
}

TEST_CASE("memory of a few closed streams is reused") {
  StreamTable<Stream> table;
  const std::vector<const Stream*> first{&table.open(key(1)).first, &table.open(key(2)).first};
  for (std::uint64_t i = 3; i < 10; ++i) {
    table.close(table.find(key(i - 2)));
    CHECK(std::count(first.begin(), first.end(), &table.open(key(i)).first) == 1);
  }
}

}  // namespace tutti::transport::test
