#include <fmt/format.h>

#include "from_root.hpp"
#include "subcommands.hpp"
#include "text.hpp"

namespace tutti::app {

int broadcast(Job& job, const OperationOptions& options) {
  const auto sent = [](std::size_t bytes) {
    return fmt::format("broadcast {} to all ranks", size_text(bytes));
  };
  return perform_from_root(job, options, "broadcast", sent, [&](void* buffer, std::size_t count) {
    auto& communicator = job.communicator();
    const Call call{.algorithm = options.algorithm};
    job.run(
        [&](Stream stream) {
          communicator.device_broadcast(buffer, count, options.type, options.root, stream, call);
        },
        [&] { communicator.broadcast(buffer, count, options.type, options.root, call); });
  });
}

}  // namespace tutti::app
