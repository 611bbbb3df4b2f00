#include "from_root.hpp"

#include <fmt/format.h>

#include "buffer.hpp"
#include "pattern.hpp"
#include "text.hpp"

namespace tutti::app {

int perform_from_root(Job& job, const OperationOptions& options, const std::string& name,
                      const std::function<std::string(std::size_t bytes)>& sent,
                      const std::function<void(void*, std::size_t)>& run) {
  const int rank = job.communicator().rank();
  const auto count = element_count(options);
  Buffer buffer(job, count * size_of(options.type));
  const auto prepare = [&] {
    // Elsewhere another pattern, so that memory which nobody wrote does not pass.
    const int pattern = rank == options.root ? rank : rank + job.communicator().size();
    fill(buffer.host(), count, options.type, pattern);
    buffer.upload();
  };
  const auto check_all = [&]() -> Outcome {
    buffer.download();
    const auto wrong = check(buffer.host(), count, options.type, options.root);
    auto line = rank == options.root ? sent(buffer.bytes())
                                     : fmt::format("received {} from rank {}",
                                                   size_text(buffer.bytes()), options.root);
    if (wrong) {
      line += fmt::format(", WRONG: {} ({} of {} elements)", wrong->first, wrong->elements, count);
    } else if (rank != options.root) {
      line += ", verified";
    }
    return {line, wrong ? wrong->first : std::string()};
  };
  return perform(job, options,
                 {.name = name,
                  .bytes = buffer.bytes(),
                  .prepare = prepare,
                  .run = [&] { run(buffer.data(), count); },
                  .check = check_all});
}

}  // namespace tutti::app
