// Calls on CUDA tensors.
#include "process_group.hpp"

namespace tutti::torch_backend {

using c10d::OpType;

namespace {

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter || operation == Operation::reduce_scatter_v;
}

/// What NCCL has no arithmetic for; the library itself knows its version and the device.
const char* lacking_in_nccl(const Collective& call) {
  if (call.type == Type::i16) return "torch.int16";
  if (call.type == Type::u16) return "torch.uint16";
  const bool is_complex = call.type == Type::c64 || call.type == Type::c128;
  if (is_complex && call.op == Operator::product) return "ReduceOp.PRODUCT of complex numbers";
  const bool is_bool = call.type == Type::boolean;
  if (call.op == Operator::bit_xor) return "ReduceOp.BXOR";
  if (call.op == Operator::bit_and && !is_bool) return "ReduceOp.BAND";
  if (call.op == Operator::bit_or && !is_bool) return "ReduceOp.BOR";
  return nullptr;
}

/// Throws ValueError.
void require_nccl(const Request& request, const char* title) {
  const auto* const call = std::get_if<Collective>(&request.call);
  if (call == nullptr || !reduces(call->operation)) return;
  if (const auto* const lacking = lacking_in_nccl(*call)) {
    C10_THROW_ERROR(ValueError, std::string(title) +
                                    ": NCCL has no reduction of CUDA tensors for " + lacking +
                                    ": convert the tensor to another type, or move it " +
                                    "to the CPU, where tutti does");
  }
}

}  // namespace

/// The device of all tensors of a call; none of a call without tensors.
std::optional<c10::Device> ProcessGroupTutti::device_of(const Plan& plan) {
  auto device = plan.device;
  for (const auto* const tensors : {&plan.inputs, &plan.outputs, &plan.kept}) {
    for (const auto& tensor : *tensors) {
      if (!tensor.defined()) continue;
      if (!device) device = tensor.device();
      TORCH_CHECK(
          tensor.device() == *device, plan.title,
          ": Expected all tensors to be on the same device, but found at least two devices, ",
          *device, " and ", tensor.device());
    }
  }
  return device;
}

std::shared_ptr<DeviceChannel> ProcessGroupTutti::channel_of(Plan& plan, c10::Device device,
                                                             Milliseconds timeout) {
  // A batch of messages is like a collective, and so is a message after connect_eagerly().
  if (!c10d::isP2POp(plan.type) || is_coalescing_) return device_path_->all_ranks(device, timeout);
  auto& message = std::get<Message>(plan.requests.front().call);
  auto& peer = message.operation == Operation::send ? message.to : message.from;
  const auto pair = device_path_->with(peer, device, timeout);
  peer = pair.peer;
  return pair.channel;
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::issue_on_device(Plan plan, c10::Device device) {
  TORCH_CHECK(!coalesced_, plan.title,
              ": calls on CPU and on CUDA tensors can't be coalesced: make two batches");
  const bool is_message = c10d::isP2POp(plan.type);
  const auto sequence = is_message ? sequence_.load() : ++sequence_;
  const auto timeout = plan.timeout == c10d::kUnsetTimeout ? settings_.timeout : plan.timeout;
  const int source =
      plan.type == OpType::RECV ? std::get<Message>(plan.requests.front().call).from : -1;
  const auto channel = channel_of(plan, device, timeout);
  auto call = coalesced_on_device_;
  if (!call) {
    // Before the lock: a stream that is seen for the first time needs the GIL.
    const auto place = channel->place(is_coalescing_ || plan.is_async);
    call = std::make_shared<DeviceCall>(channel, place);
  }
  if (is_coalescing_ && !coalesced_on_device_) {
    call->is_open = true;
    coalesced_on_device_ = call;
  }
  const auto guard = channel->lock();
  const auto& place = call->place();
  for (auto& request : plan.requests) {
    request.options = {.timeout = timeout, .stream = Stream(place.handle)};
    std::visit([](auto& values) { values.memory = Memory::device; }, request.call);
    if (!channel->is_staged()) require_nccl(request, plan.title);
  }
  auto work = c10::make_intrusive<DeviceWork>(getRank(), plan.type, plan.title, plan.inputs,
                                              sequence, call, plan.type == OpType::BARRIER);
  const auto append = [](auto& list, auto& more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  };
  append(call->outputs, plan.outputs);
  // On the caller's own stream their memory is used in order anyway.
  if (place.stream != place.issuer || channel->is_staged()) append(call->kept, plan.kept);
  append(call->last_steps, plan.last_steps);
  call->source = source;
  if (is_message && is_coalescing_) {
    for (auto& request : plan.requests) batch_.push_back(std::move(request));
    return work;
  }
  channel->follow(place);
  queue(*call, plan.requests);
  if (!is_coalescing_ && !place.is_captured) device_path_->watcher().add(call);
  return work;
}

/// Behind what is on the call's stream.
void ProcessGroupTutti::queue(DeviceCall& call, const std::vector<Request>& requests) {
  auto& channel = call.channel();
  for (const auto& request : requests) call.works.push_back(channel.channel()->start(request));
  if (!channel.is_staged()) call.queue_last_steps();
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::end_coalescing_on_device() {
  const auto call = std::exchange(coalesced_on_device_, nullptr);
  const auto batch = std::exchange(batch_, {});
  if (!batch.empty()) {
    const auto guard = call->channel().lock();
    call->channel().follow(call->place());
    call->works.push_back(call->channel().channel()->start(batch));
  }
  call->is_open = false;
  if (!call->place().is_captured) device_path_->watcher().add(call);
  return c10::make_intrusive<DeviceWork>(getRank(), OpType::COALESCED, "tutti:coalesced", Tensors(),
                                         sequence_.load(), call, false);
}

}  // namespace tutti::torch_backend
