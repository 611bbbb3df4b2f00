#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "operation.hpp"
#include "pattern.hpp"
#include "subcommands.hpp"
#include "text.hpp"

namespace tutti::app {

int all_reduce(Job& job, const OperationOptions& options) {
  auto& communicator = job.communicator();
  const auto count = element_count(options);
  std::vector<std::byte> send(count * size_of(options.type));
  std::vector<std::byte> recv(send.size());
  const auto prepare = [&] {
    fill_for(options.op, send.data(), count, options.type, communicator.rank());
    std::memset(recv.data(), 0xA5, recv.size());
  };
  const auto check_all = [&]() -> Outcome {
    const auto wrong =
        check_reduced(options.op, recv.data(), count, options.type, communicator.size());
    auto line = fmt::format("reduced {} over {} by {}", size_text(recv.size()),
                            count_text(communicator.size(), "rank"), name(options.op));
    if (!wrong) return {line + ", verified", {}};
    return {fmt::format("{}, WRONG: {} ({} of {} elements)", line, wrong->first, wrong->elements,
                        count),
            wrong->first};
  };
  return perform(job, options,
                 {.name = "all-reduce",
                  .bytes = recv.size(),
                  .prepare = prepare,
                  .run =
                      [&] {
                        communicator.all_reduce(send.data(), recv.data(), count, options.type,
                                                options.op, {.algorithm = options.algorithm});
                      },
                  .check = check_all});
}

}  // namespace tutti::app
