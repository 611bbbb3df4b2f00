#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "operation.hpp"
#include "pattern.hpp"
#include "subcommands.hpp"
#include "text.hpp"

namespace tutti::app {

/// A ring: each rank sends to the next and receives from the one before.
int send_recv(Job& job, const OperationOptions& options) {
  auto& communicator = job.communicator();
  const int size = communicator.size();
  const int to = (communicator.rank() + 1) % size;
  const int from = (communicator.rank() + size - 1) % size;
  const auto count = element_count(options);
  std::vector<std::byte> send(count * size_of(options.type));
  std::vector<std::byte> recv(send.size());
  const auto prepare = [&] {
    fill(send.data(), count, options.type, communicator.rank());
    std::memset(recv.data(), 0xA5, recv.size());
  };
  const auto check_all = [&]() -> Outcome {
    const auto wrong = check(recv.data(), count, options.type, from);
    auto line = fmt::format("sent {0} to rank {1}, received {0} from rank {2}",
                            size_text(recv.size()), to, from);
    if (!wrong) return {line + ", verified", {}};
    return {fmt::format("{}, WRONG: {} ({} of {} elements)", line, wrong->first, wrong->elements,
                        count),
            wrong->first};
  };
  return perform(job, options,
                 {.name = "send-recv",
                  .bytes = recv.size(),
                  .prepare = prepare,
                  .run =
                      [&] {
                        communicator.send_recv(send.data(), count, to, recv.data(), count, from,
                                               options.type);
                      },
                  .check = check_all});
}

}  // namespace tutti::app
