// gather_texts(): rank 0 gathers the texts of all ranks at the end of the command.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "gather_texts.hpp"
#include "support/catch.hpp"
#include "support/fork_ranks.hpp"

namespace tutti::test {
namespace {

int open_sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor is closed by now
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().starts_with("socket:")) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("rank 0 gathers the texts of all ranks over a logarithmic number of links") {
  for (const int size : {1, 2, 5, 16}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
      auto& communicator = rank.communicator({.timeout = 20s});
      const int before = open_sockets();
      // All lengths; the first text and each eighth one are empty.
      const auto due = [](int of) {
        return std::string(static_cast<std::size_t>(of % 8) * 1000, static_cast<char>('a' + of));
      };
      const auto texts = app::gather_texts(communicator, due(rank.rank()));
      const int links = open_sockets() - before;
      if (rank.rank() != 0) {
        expect(texts.empty(), "another rank has texts");
      } else {
        expect(texts.size() == static_cast<std::size_t>(rank.size()), "not one of each rank");
        for (int of = 0; of < rank.size(); ++of) {
          expect(texts[static_cast<std::size_t>(of)] == due(of), "WRONG TEXT");
        }
        // Both directions of about four ranks, not of fifteen.
        expect(links <= 12, "too many links: " + std::to_string(links));
      }
      communicator.finalize();
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

}  // namespace tutti::test
