#include <fmt/format.h>

#include <cstring>

#include "buffer.hpp"
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
  Buffer send(job, count * size_of(options.type));
  Buffer recv(job, send.bytes());
  const auto prepare = [&] {
    fill(send.host(), count, options.type, communicator.rank());
    std::memset(recv.host(), 0xA5, recv.bytes());
    send.upload();
    recv.upload();
  };
  const auto check_all = [&]() -> Outcome {
    recv.download();
    const auto wrong = check(recv.host(), count, options.type, from);
    auto line = fmt::format("sent {0} to rank {1}, received {0} from rank {2}",
                            size_text(recv.bytes()), to, from);
    if (!wrong) return {line + ", verified", {}};
    return {fmt::format("{}, WRONG: {} ({} of {} elements)", line, wrong->first, wrong->elements,
                        count),
            wrong->first};
  };
  const auto run = [&] {
    job.run(
        [&](Stream stream) {
          communicator.device_send_recv(send.data(), count, to, recv.data(), count, from,
                                        options.type, stream);
        },
        [&] {
          communicator.send_recv(send.data(), count, to, recv.data(), count, from, options.type);
        });
  };
  return perform(job, options,
                 {.name = "send-recv",
                  .bytes = recv.bytes(),
                  .prepare = prepare,
                  .run = run,
                  .check = check_all});
}

}  // namespace tutti::app
