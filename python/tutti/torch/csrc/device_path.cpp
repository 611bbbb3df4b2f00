#include "device_path.hpp"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "store_bootstrap.hpp"

namespace tutti::torch_backend {
namespace {

constexpr const char* no_capture =
    " can't be captured in a CUDA graph: make one before the capture";

}  // namespace

std::shared_ptr<Channel> connect(const Membership& members, const Options& options,
                                 const std::string& what, std::shared_ptr<Failures> failures) {
  StoreBootstrap bootstrap(members.store, members.rank, members.size);
  try {
    return std::make_shared<Channel>(Communicator::create(bootstrap, options), members.name,
                                     members.global_ranks, std::move(failures));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::usage) C10_THROW_ERROR(ValueError, error.sentence());
    C10_THROW_ERROR(DistBackendError, error.sentence() + " [tutti " + tutti::name(error.code()) +
                                          ", set-up of " + what + "]");
  }
}

DevicePath::DevicePath(Membership members, std::shared_ptr<Failures> failures)
    : members_(std::move(members)),
      failures_(std::move(failures)),
      driver_(std::make_shared<Driver>()),
      watcher_(driver_) {}

void DevicePath::require(c10::Device device) {
  const std::scoped_lock lock(mutex_);
  if (is_closed_) {
    C10_THROW_ERROR(DistBackendError, "process group " + members_.name +
                                          " of tutti is closed: make no call after "
                                          "destroy_process_group(), shutdown() or abort()");
  }
  if (!device_) device_ = device;
  TORCH_CHECK(device == *device_, "process group ", members_.name, " of tutti uses ", *device_,
              ", and a tensor is on ", device,
              ": move it there, or make another process group for the other device");
}

const std::shared_ptr<DeviceChannel>& DevicePath::Attempt::get() const {
  if (failure) std::rethrow_exception(failure);
  return channel;
}

bool DevicePath::is_capturing(c10::Device device) {
  return driver_->is_capturing(handles_->of(current_stream(device)));
}

const std::shared_ptr<DeviceChannel>& DevicePath::make(Attempt& attempt, const Membership& members,
                                                       const std::string& what,
                                                       Milliseconds timeout) {
  Attempt made;
  try {
    auto channel =
        connect(members, {.timeout = timeout, .device = device_->index()}, what, failures_);
    channel->require_device_path(what);
    made.channel = std::make_shared<DeviceChannel>(std::move(channel), *device_, handles_, driver_);
  } catch (...) {
    made.failure = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  if (made.channel && is_closed_) made.channel->channel()->close();
  attempt = std::move(made);
  return attempt.get();
}

void DevicePath::connect_eagerly(c10::Device device, Milliseconds timeout) {
  static_cast<void>(all_ranks(device, timeout));
  const std::scoped_lock lock(mutex_);
  is_eager_ = true;
}

std::shared_ptr<DeviceChannel> DevicePath::all_ranks(c10::Device device, Milliseconds timeout) {
  require(device);
  {
    const std::scoped_lock lock(mutex_);
    if (all_.is_made()) return all_.get();
  }
  const auto what = "process group " + members_.name + " for CUDA tensors";
  TORCH_CHECK(!is_capturing(device), "the first call of ", what, no_capture);
  const std::scoped_lock connecting(connecting_);
  if (all_.is_made()) return all_.get();
  auto members = members_;
  members.store = c10::make_intrusive<c10d::PrefixStore>("tutti_cuda", members_.store);
  return make(all_, members, what, timeout);
}

DevicePath::Pair DevicePath::with(int peer, c10::Device device, Milliseconds timeout) {
  require(device);
  const int number_of_peer = members_.rank < peer ? 1 : 0;
  Attempt* attempt = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (is_eager_) return {all_.get(), peer};
    attempt = &pairs_[peer];
    if (attempt->is_made()) return {attempt->get(), number_of_peer};
  }
  const int low = std::min(members_.rank, peer);
  const int high = std::max(members_.rank, peer);
  const auto what = "messages of ranks " + std::to_string(low) + " and " + std::to_string(high) +
                    " of process group " + members_.name + " for CUDA tensors";
  TORCH_CHECK(!is_capturing(device), "the first call of ", what, no_capture);
  const std::scoped_lock connecting(connecting_);
  if (attempt->is_made()) return {attempt->get(), number_of_peer};
  auto members = members_;
  members.store = c10::make_intrusive<c10d::PrefixStore>(
      "tutti_cuda_" + std::to_string(low) + "_" + std::to_string(high), members_.store);
  members.rank = 1 - number_of_peer;
  members.size = 2;
  members.global_ranks.clear();
  for (const int rank : {low, high}) {
    const auto index = static_cast<std::size_t>(rank);
    members.global_ranks.push_back(
        index < members_.global_ranks.size() ? members_.global_ranks[index] : rank);
  }
  return {make(*attempt, members, what, timeout), number_of_peer};
}

std::vector<std::shared_ptr<DeviceChannel>> DevicePath::channels() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<DeviceChannel>> result;
  if (all_.channel) result.push_back(all_.channel);
  for (const auto& [peer, attempt] : pairs_) {
    if (attempt.channel) result.push_back(attempt.channel);
  }
  return result;
}

void DevicePath::abort(const std::string& reason) {
  for (const auto& channel : channels()) channel->channel()->abort(reason);
}

void DevicePath::close() {
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
  }
  watcher_.stop();
  for (const auto& channel : channels()) channel->channel()->close();
}

}  // namespace tutti::torch_backend
