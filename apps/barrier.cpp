#include "operation.hpp"
#include "subcommands.hpp"

namespace tutti::app {

int barrier(Job& job, const OperationOptions& options) {
  return perform(job, options,
                 {.name = "barrier",
                  .moves_data = false,
                  .prepare = [] {},
                  .run =
                      [&] {
                        job.run(
                            [&](Stream stream) { job.communicator().device_barrier(stream); },
                            [&] { job.communicator().barrier({.algorithm = options.algorithm}); });
                      },
                  .check =
                      [] {
                        return Outcome{"passed", {}};
                      }});
}

}  // namespace tutti::app
