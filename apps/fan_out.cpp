#include <fmt/format.h>

#include <vector>

#include "from_root.hpp"
#include "subcommands.hpp"
#include "text.hpp"

namespace tutti::app {

int fan_out(Job& job, const OperationOptions& options) {
  const auto sent = [&](std::size_t bytes) {
    std::string lines;
    for (int peer = 0; peer < job.communicator().size(); ++peer) {
      if (peer != options.root)
        lines += fmt::format("sent {} to rank {}\n", size_text(bytes), peer);
    }
    return lines.empty() ? std::string("is alone: nothing to send") : lines;
  };
  return perform_from_root(job, options, "fan-out", sent, [&](void* buffer, std::size_t count) {
    auto& communicator = job.communicator();
    const Call call{.algorithm = options.algorithm};
    job.run(
        [&](Stream stream) {
          communicator.device_fan_out(buffer, count, options.type, options.root, stream, call);
        },
        [&] { communicator.fan_out(buffer, count, options.type, options.root, call); });
  });
}

}  // namespace tutti::app
