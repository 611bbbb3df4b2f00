#include "workload.hpp"

namespace tutti::app {

Workload::Workload(JobSession& job, const CallSpec& spec)
    : spec_(spec),
      layout_(buffer_layout_of(spec)),
      data_(spec),
      send_(job, layout_.send_elements * size_of(spec.type), spec.allocated),
      recv_(job, layout_.recv_elements * size_of(spec.type), spec.allocated) {}

void Workload::prepare() {
  data_.fill(send_.host(), recv_.host());
  send_.upload();
  recv_.upload();
}

CheckResult Workload::check(bool input_too) {
  send_.download();
  recv_.download();
  return data_.check(send_.host(), recv_.host(), input_too);
}

PreparedCall::PreparedCall(const CallSpec& spec, void* send, void* recv, Memory memory) {
  if (spec.operation == Operation::barrier) return;
  if (spec.operation == Operation::send_recv) {
    call_ = Message{.operation = Operation::send_recv,
                    .type = spec.type,
                    .send = send,
                    .send_count = spec.count,
                    .to = next_of(spec),
                    .recv = recv,
                    .recv_count = spec.count,
                    .from = previous_of(spec),
                    .memory = memory};
    return;
  }
  auto collective = collective_of(spec, send, recv);
  collective.memory = memory;
  call_ = collective;
}

void PreparedCall::run(Communicator& communicator, const CallOptions& options) const {
  if (const auto* collective = std::get_if<Collective>(&call_)) {
    communicator.run(*collective, options);
  } else if (const auto* message = std::get_if<Message>(&call_)) {
    communicator.run(*message, options);
  } else {
    communicator.barrier(options);
  }
}

void call(Communicator& communicator, const CallSpec& spec, void* send, void* recv,
          const CallOptions& options) {
  PreparedCall(spec, send, recv, options.stream ? Memory::device : Memory::host)
      .run(communicator, options);
}

}  // namespace tutti::app
