#include "../workload.hpp"
#include "peers.hpp"
#include "tutti/version.hpp"

namespace tutti::app::bench {
namespace {

class TuttiPeer final : public Peer {
 public:
  explicit TuttiPeer(JobSession& job)
      : Peer("tutti", version_string), communicator_(job.communicator()) {}

  std::string prepare(const Task& task) override {
    task_ = task;
    return {};
  }
  void run() override {
    call(communicator_, task_.spec, task_.send, task_.recv, {.stream = task_.stream});
  }
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
};

}  // namespace

std::unique_ptr<Peer> make_tutti_peer(JobSession& job) {
  return std::make_unique<TuttiPeer>(job);
}

}  // namespace tutti::app::bench
