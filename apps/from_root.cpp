#include "from_root.hpp"

#include <fmt/format.h>

#include <vector>

#include "pattern.hpp"
#include "text.hpp"

namespace tutti::app {

int perform_from_root(Job& job, const OperationOptions& options, const std::string& name,
                      const std::function<std::string(std::size_t bytes)>& sent,
                      const std::function<void(void*, std::size_t, const Call&)>& run) {
  const int rank = job.communicator().rank();
  const auto count = element_count(options);
  std::vector<std::byte> buffer(count * size_of(options.type));
  const auto prepare = [&] {
    if (rank == options.root) return fill(buffer.data(), count, options.type, rank);
    // Another pattern, so that memory which nobody wrote does not pass.
    fill(buffer.data(), count, options.type, rank + job.communicator().size());
  };
  const auto check_all = [&]() -> Outcome {
    const auto wrong = check(buffer.data(), count, options.type, options.root);
    auto line = rank == options.root ? sent(buffer.size())
                                     : fmt::format("received {} from rank {}",
                                                   size_text(buffer.size()), options.root);
    if (wrong) {
      line += fmt::format(", WRONG: {} ({} of {} elements)", wrong->first, wrong->elements, count);
    } else if (rank != options.root) {
      line += ", verified";
    }
    return {line, wrong ? wrong->first : std::string()};
  };
  const Call call{.algorithm = options.algorithm};
  return perform(job, options,
                 {.name = name,
                  .bytes = buffer.size(),
                  .prepare = prepare,
                  .run = [&] { run(buffer.data(), count, call); },
                  .check = check_all});
}

}  // namespace tutti::app
