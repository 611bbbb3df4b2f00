#include "../workload.hpp"
#include "implementations.hpp"
#include "tutti/version.hpp"

namespace tutti::app::bench {
namespace {

class TuttiImplementation final : public Implementation {
 public:
  explicit TuttiImplementation(JobSession& job)
      : Implementation("tutti", version_string), communicator_(job.communicator()) {}

  std::string prepare(const Task& task) override {
    task_ = task;
    call_ = {task.spec, task.send, task.recv, task.stream ? Memory::device : Memory::host};
    return {};
  }
  void run() override { call_.run(communicator_, {.stream = task_.stream}); }
  void drain() override {
    if (task_.stream) communicator_.synchronize(*task_.stream);
  }
  std::string algorithm() const override {
    // Of a message it would be that of the barrier before.
    return shape_of(task_.spec.operation).collective ? communicator_.latest_algorithm() : "";
  }

 private:
  Communicator& communicator_;
  Task task_;
  PreparedCall call_;
};

}  // namespace

std::unique_ptr<Implementation> make_tutti_implementation(JobSession& job) {
  return std::make_unique<TuttiImplementation>(job);
}

}  // namespace tutti::app::bench
