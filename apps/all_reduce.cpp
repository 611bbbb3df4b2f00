#include <fmt/format.h>

#include <cstring>

#include "buffer.hpp"
#include "operation.hpp"
#include "pattern.hpp"
#include "subcommands.hpp"
#include "text.hpp"

namespace tutti::app {

int all_reduce(Job& job, const OperationOptions& options) {
  auto& communicator = job.communicator();
  const auto count = element_count(options);
  Buffer send(job, count * size_of(options.type));
  Buffer recv(job, send.bytes());
  const auto prepare = [&] {
    fill_for(options.op, send.host(), count, options.type, communicator.rank());
    std::memset(recv.host(), 0xA5, recv.bytes());
    send.upload();
    recv.upload();
  };
  const auto check_all = [&]() -> Outcome {
    recv.download();
    const auto wrong =
        check_reduced(options.op, recv.host(), count, options.type, communicator.size());
    auto line = fmt::format("reduced {} over {} by {}", size_text(recv.bytes()),
                            count_text(communicator.size(), "rank"), name(options.op));
    if (!wrong) return {line + ", verified", {}};
    return {fmt::format("{}, WRONG: {} ({} of {} elements)", line, wrong->first, wrong->elements,
                        count),
            wrong->first};
  };
  const auto run = [&] {
    job.run(
        [&](Stream stream) {
          communicator.device_all_reduce(send.data(), recv.data(), count, options.type, options.op,
                                         stream);
        },
        [&] {
          communicator.all_reduce(send.data(), recv.data(), count, options.type, options.op,
                                  {.algorithm = options.algorithm});
        });
  };
  return perform(job, options,
                 {.name = "all-reduce",
                  .bytes = recv.bytes(),
                  .prepare = prepare,
                  .run = run,
                  .check = check_all});
}

}  // namespace tutti::app
