#include "process_group.hpp"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace tutti::torch_backend {
namespace {

using c10d::OpType;

/// No two process groups have the same, on whichever host and in whichever process.
std::string random_handle() {
  std::random_device source;
  std::string result = "tutti";
  for (int word = 0; word < 4; ++word) result += "-" + std::to_string(source());
  return result;
}

}  // namespace

std::span<const std::size_t> ProcessGroupTutti::Plan::keep(std::vector<std::size_t> values) {
  counts.push_back(std::make_shared<std::vector<std::size_t>>(std::move(values)));
  return *counts.back();
}

at::Tensor ProcessGroupTutti::Plan::keep(at::Tensor tensor) {
  kept.push_back(tensor);
  return tensor;
}

ProcessGroupTutti::ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                     int size, Settings settings)
    : BackendInterface(rank, size),
      store_(store),
      settings_(std::move(settings)),
      options_(c10::make_intrusive<CopyableOptions>("tutti", settings_.timeout)),
      handle_(random_handle()) {
  init();
  if (!settings_.enable_reconfigure) {
    join({.store = store,
          .rank = rank,
          .size = size,
          .name = settings_.name,
          .global_ranks = settings_.global_ranks},
         settings_.timeout);
  }
  options_->group_name = settings_.name;
  for (const int global : settings_.global_ranks) {
    options_->global_ranks_in_group.push_back(static_cast<std::uint64_t>(global));
  }
}

ProcessGroupTutti::~ProcessGroupTutti() {
  try {
    // Callbacks of futures may need the GIL while this waits for them.
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      const pybind11::gil_scoped_release released;
      close();
    } else {
      close();
    }
  } catch (const std::exception& error) {
    TORCH_WARN("tutti: closing process group ", settings_.name, " failed: ", error.what());
  }
}

void ProcessGroupTutti::close() {
  // In a forked child the thread is the parent's, and the communicator knows that it is.
  if (::getpid() != owner_) {
    if (completer_) completer_->abandon();
    if (device_path_) device_path_->abandon();
    // Its threads and its memory are the parent's.
    static_cast<void>(device_path_.release());
    return;
  }
  if (!channel_) return;
  device_path_->close();
  completer_->stop();
  channel_->close();
  completer_->complete_rest();
}

void ProcessGroupTutti::shutdown() {
  close();
}

void ProcessGroupTutti::abort() {
  if (!channel_) return;
  const auto reason = "abort() of process group " + settings_.name + " was called";
  device_path_->abort(reason);
  channel_->abort(reason);
  close();
}

void ProcessGroupTutti::setTimeout(std::chrono::milliseconds timeout) {
  settings_.timeout = timeout;
  options_->timeout = timeout;
}

ProcessGroupTutti::ErrorType ProcessGroupTutti::getError() {
  return failures_->has_failed() ? ErrorType::COMM_ERROR : ErrorType::SUCCESS;
}

void ProcessGroupTutti::eagerConnectSingleDevice(at::Device device) {
  if (!device.is_cuda()) return;
  if (settings_.enable_reconfigure && !channel_) return;
  device_path_->connect_eagerly(with_index(device), settings_.timeout);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::issue(Plan plan) {
  static_cast<void>(channel());
  const auto device = device_of(plan);
  if (device && device->is_cuda()) return issue_on_device(std::move(plan), *device);
  TORCH_CHECK(!coalesced_on_device_, plan.title,
              ": calls on CPU and on CUDA tensors can't be coalesced: make two batches");
  if (is_coalescing_ && !coalesced_) {
    coalesced_ = std::make_shared<Call>(channel_);
    coalesced_->is_open = true;
  }
  const bool is_message = c10d::isP2POp(plan.type);
  const auto sequence = is_message ? sequence_.load() : ++sequence_;
  const auto timeout = plan.timeout == c10d::kUnsetTimeout ? settings_.timeout : plan.timeout;
  for (auto& request : plan.requests) request.options.timeout = timeout;
  const auto call = coalesced_ ? coalesced_ : std::make_shared<Call>(channel_);
  auto work = c10::make_intrusive<TuttiWork>(getRank(), plan.type, plan.title, plan.inputs,
                                             sequence, call, completer_);
  const auto append = [](auto& list, auto& more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  };
  append(call->outputs, plan.outputs);
  append(call->kept, plan.kept);
  append(call->last_steps, plan.last_steps);
  try {
    if (plan.is_async || coalesced_) {
      for (const auto& request : plan.requests) call->works.push_back(channel_->start(request));
      return work;
    }
    for (const auto& request : plan.requests) call->source = channel_->run(request);
  } catch (...) {
    if (!coalesced_) call->complete(std::current_exception());
    throw;
  }
  call->complete();
  work->end_record();
  if (const auto error = call->error()) std::rethrow_exception(error);
  return work;
}

void ProcessGroupTutti::require_root(const char* call, std::int64_t root) const {
  TORCH_CHECK(root >= 0 && root < getSize(), prefix(call), "invalid root rank: ", root,
              ", expected 0 to ", getSize() - 1);
}

void ProcessGroupTutti::require_list(const char* call, const char* what,
                                     const Tensors& tensors) const {
  TORCH_CHECK(tensors.size() == static_cast<std::size_t>(getSize()), prefix(call), "invalid ", what,
              " tensor list at index 0 (expected length ", getSize(), ", got ", tensors.size(),
              ")");
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::barrier(const c10d::BarrierOptions& options) {
  auto plan = plan_of(OpType::BARRIER, "tutti:barrier", {}, options);
  // torch's operator does not pass on the device that its Python code has chosen.
  if (!options.device_ids.empty() && device_count() > 0) {
    plan.device =
        c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options.device_ids.front()));
  } else if (const auto bound = getBoundDeviceId(); bound && bound->is_cuda()) {
    plan.device = bound;
  }
  plan.requests = {{Collective{.operation = Operation::barrier}}};
  return issue(std::move(plan));
}

/// Over the store, so that the process group still works after a rank was late.
void ProcessGroupTutti::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  static_cast<void>(channel());
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? settings_.timeout : options.timeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto name = "monitored_barrier/" + std::to_string(monitored_barriers_++) + "/";
  const auto wait_for = [&](const std::string& key) {
    auto pause = std::chrono::microseconds(50);
    while (!members_.store->check({key})) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(5000));
    }
    return true;
  };
  if (getRank() != 0) {
    members_.store->set(name + std::to_string(getRank()), std::string("here"));
    const bool is_answered = wait_for(name + "answer");
    const auto answer =
        is_answered ? members_.store->get_to_str(name + "answer") : "no answer until the timeout";
    if (answer != "complete") {
      C10_THROW_ERROR(DistBackendError,
                      "Rank " + std::to_string(getRank()) +
                          " successfully reached monitoredBarrier, but received errors while "
                          "waiting for send/recv from rank 0. Please check rank 0 logs for faulty "
                          "rank. (" +
                          answer + ")");
    }
    return;
  }
  std::vector<int> missing;
  bool is_rank_0_late = false;
  for (int rank = 1; rank < getSize(); ++rank) {
    const bool is_late = std::chrono::steady_clock::now() >= deadline;
    if (wait_for(name + std::to_string(rank))) continue;
    missing.push_back(rank);
    is_rank_0_late = is_late && missing.size() == 1;
    if (!wait_for_all) break;
  }
  if (missing.empty()) {
    members_.store->set(name + "answer", std::string("complete"));
    return;
  }
  std::string ranks;
  for (const int rank : missing) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  const auto limit = std::to_string(timeout.count()) + " ms";
  const auto text = is_rank_0_late && !wait_for_all
                        ? "Rank 0 timed out in monitoredBarrier after " + limit +
                              ", before it looked at rank " + ranks
                        : (wait_for_all ? "Ranks " : "Rank ") + ranks +
                              " failed to pass monitoredBarrier in " + limit;
  members_.store->set(name + "answer", text);
  C10_THROW_ERROR(DistBackendError, "[Rank 0]: " + text);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::message(Operation operation, const char* call,
                                                          const Tensors& tensors, int peer,
                                                          int tag) {
  const auto& tensor = only(call, tensors);
  require_contiguous(call, tensor, true);
  TORCH_CHECK(peer == any_rank || (peer >= 0 && peer < getSize()), prefix(call),
              "invalid rank: ", peer, ", expected 0 to ", getSize() - 1);
  TORCH_CHECK(tag >= 0, prefix(call), "invalid tag: ", tag, ", expected a non-negative number");
  TORCH_CHECK(peer != any_rank || !tensor.is_cuda(), prefix(call),
              "CUDA tensors can't be received from any rank: name the sender");
  const Moved moved(tensor);
  const bool sends = operation == Operation::send;
  Message request{.operation = operation, .type = moved.type};
  if (sends) {
    request.send = moved.data;
    request.send_count = moved.count;
    request.to = peer;
  } else {
    request.recv = moved.data;
    request.recv_count = moved.count;
    request.from = peer;
  }
  const auto type = sends ? OpType::SEND : peer == any_rank ? OpType::RECVANYSOURCE : OpType::RECV;
  return issue({.type = type,
                .title = sends              ? "tutti:send"
                         : peer == any_rank ? "tutti:recvAnySource"
                                            : "tutti:recv",
                .inputs = tensors,
                .requests = {{request, {.tag = static_cast<std::uint32_t>(tag)}}},
                .outputs = tensors,
                .kept = tensors});
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::send(Tensors& tensors, int to, int tag) {
  return message(Operation::send, "send", tensors, to, tag);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::recv(Tensors& tensors, int from, int tag) {
  return message(Operation::recv, "recv", tensors, from, tag);
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::recvAnysource(Tensors& tensors, int tag) {
  return message(Operation::recv, "recv_anysource", tensors, any_rank, tag);
}

void ProcessGroupTutti::drop_batch() {
  const bool has_unsent = !std::exchange(batch_, {}).empty();
  if (const auto call = std::exchange(coalesced_, nullptr)) {
    call->is_open = false;
    completer_->add(call);
  }
  if (const auto call = std::exchange(coalesced_on_device_, nullptr)) {
    if (has_unsent) {
      try {
        C10_THROW_ERROR(DistBackendError,
                        "this call is part of a batch that an exception has ended before its "
                        "messages were sent: begin the batch again");
      } catch (...) {
        call->fail(std::current_exception());
      }
    }
    call->is_open = false;
    if (!call->place().is_captured) device_path_->watcher().add(call);
  }
}

void ProcessGroupTutti::startCoalescing() {
  // An exception of the program may have ended a batch, and torch doesn't tell. The calls of that
  // batch that have started go on, as with torch's NCCL backend.
  drop_batch();
  is_coalescing_ = true;
}

ProcessGroupTutti::WorkPointer ProcessGroupTutti::endCoalescing() {
  TORCH_CHECK(is_coalescing_, prefix("endCoalescing"), "called without startCoalescing()");
  is_coalescing_ = false;
  if (coalesced_on_device_) return end_coalescing_on_device();
  if (!coalesced_) coalesced_ = std::make_shared<Call>(channel());
  coalesced_->is_open = false;
  return c10::make_intrusive<TuttiWork>(getRank(), OpType::COALESCED, "tutti:coalesced", Tensors(),
                                        sequence_.load(), std::exchange(coalesced_, nullptr),
                                        completer_);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  // Some versions of torch split once for each type of device, on one store, and use the first.
  if (auto latest = latest_split_.lock();
      latest && latest_split_store_.lock() == store && latest_split_ranks_ == ranks) {
    return latest;
  }
  std::vector<int> global_ranks;
  for (const int rank : ranks) {
    const auto& known = members_.global_ranks;
    const auto index = static_cast<std::size_t>(rank);
    global_ranks.push_back(index < known.size() ? known[index] : rank);
  }
  // The store of an earlier split of these ranks may have the same prefix.
  const auto number = std::to_string(splits_[ranks]++);
  auto group = c10::make_intrusive<ProcessGroupTutti>(
      c10::make_intrusive<c10d::PrefixStore>(number, store), static_cast<int>(mine - ranks.begin()),
      static_cast<int>(ranks.size()),
      Settings{.timeout = options ? options->timeout : settings_.timeout,
               .name = options && !options->group_name.empty() ? options->group_name
                                                               : settings_.name + "/split",
               .global_ranks = std::move(global_ranks)});
  if (const auto open = open_groups_.lock()) open->add(group);
  c10::intrusive_ptr<c10d::Backend> result = std::move(group);
  latest_split_ = c10::weak_intrusive_ptr<c10d::Backend>(result);
  latest_split_store_ = c10::weak_intrusive_ptr<c10d::Store>(store);
  latest_split_ranks_ = ranks;
  return result;
}

void OpenGroups::add(const c10::intrusive_ptr<ProcessGroupTutti>& group) {
  group->open_groups_ = weak_from_this();
  const std::scoped_lock lock(mutex_);
  std::erase_if(groups_, [](const auto& known) { return known.expired(); });
  groups_.emplace_back(group);
}

void OpenGroups::shutdown() {
  std::vector<Group> groups;
  {
    const std::scoped_lock lock(mutex_);
    groups.swap(groups_);
  }
  for (const auto& known : groups) {
    if (const auto group = known.lock()) group->shutdown();
  }
}

}  // namespace tutti::torch_backend
