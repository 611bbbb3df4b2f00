#include "workload.hpp"

namespace tutti::app {

Workload::Workload(Job& job, const Problem& problem)
    : problem_(problem),
      layout_(layout_of(problem)),
      exchange_(problem),
      send_(job, layout_.send_elements * size_of(problem.type), problem.allocated),
      recv_(job, layout_.recv_elements * size_of(problem.type), problem.allocated) {}

void Workload::prepare() {
  exchange_.fill(send_.host(), recv_.host());
  send_.upload();
  recv_.upload();
}

Wrong Workload::check(bool input_too) {
  send_.download();
  recv_.download();
  return exchange_.check(send_.host(), recv_.host(), input_too);
}

void call(Communicator& communicator, const Problem& problem, void* send, void* recv,
          std::optional<Stream> stream, const Call& settings) {
  if (problem.operation == Operation::barrier) {
    return stream ? communicator.barrier(*stream, settings) : communicator.barrier(settings);
  }
  if (problem.operation != Operation::send_recv) {
    auto collective = collective_of(problem, send, recv);
    collective.stream = stream;
    return communicator.run(collective, settings);
  }
  communicator.run(Message{.operation = Operation::send_recv,
                           .type = problem.type,
                           .send = send,
                           .send_count = problem.count,
                           .to = next_of(problem),
                           .recv = recv,
                           .recv_count = problem.count,
                           .from = previous_of(problem),
                           .stream = stream},
                   settings);
}

}  // namespace tutti::app
