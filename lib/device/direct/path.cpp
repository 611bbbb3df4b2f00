#include "path.hpp"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <utility>

#include "channel.hpp"
#include "description.hpp"
#include "device/inventory.hpp"
#include "image.hpp"

namespace tutti::device::direct {
namespace {

constexpr std::array all_protocols{Protocol::packets, Protocol::chunks, Protocol::windows};

/// Why the group can't use the direct path, as far as all ranks know it; empty if it may.
std::string obstacle(const rendezvous::Peers& peers, const control::Group& group) {
  if (group.size() == 1) return "it has one rank";
  if (group.size() > max_ranks) return fmt::format("it has more than {} ranks", max_ranks);
  const auto& first = peers.place_of(group.world_of(0));
  for (int member = 0; member < group.size(); ++member) {
    if (peers.place_of(group.world_of(member)).host_index != first.host_index) {
      return "its ranks are on several hosts";
    }
    for (int other = 0; other < member; ++other) {
      if (peers.info(group.world_of(member)).pid == peers.info(group.world_of(other)).pid) {
        return "two of its ranks may be in one process";
      }
    }
  }
  return {};
}

/// Throws Error{system} if the driver or the device lacks what the direct path needs.
void require_driver(const Context& context) {
  const auto& cuda = context.cuda();
  if (kernel_image() == nullptr) {
    throw Error(ErrorCode::system, "tutti was built without nvcc, so it has no kernels");
  }
  if (cuda.import_memory == nullptr || cuda.launch == nullptr || cuda.stream_id == nullptr ||
      cuda.stream_wait_value == nullptr) {
    throw Error(ErrorCode::system, "the CUDA driver is older than CUDA 12");
  }
  int waits = 0;
  if (cuda.device_attribute(&waits, attribute_stream_waits, context.device()) != cuda_success ||
      waits == 0) {
    throw Error(ErrorCode::system, "streams of the device can't wait for 64-bit values");
  }
}

}  // namespace

std::unique_ptr<DirectPath> DirectPath::open(const Parts& parts, SetupExchange& setup,
                                             std::string& reason) {
  reason = parts.choice == DevicePathChoice::nccl ? "TUTTI_DEVICE_PATH is nccl"
                                                  : obstacle(parts.peers, parts.group);
  if (!reason.empty()) return nullptr;
  try {
    return std::make_unique<DirectPath>(parts, setup);
  } catch (const AgreedFailure& failure) {
    reason = failure.sentence();
    return nullptr;
  }
}

DirectPath::DirectPath(const Parts& parts, SetupExchange& setup)
    : context_(parts.context), group_(parts.group), choice_(parts.choice), closing_(parts.closing) {
  std::optional<CurrentContext> current;
  std::string failure;
  try {
    current.emplace(*context_);
    require_driver(*context_);
    kernels_ = std::make_unique<Kernels>(context_);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  static_cast<void>(setup.all_done(true, failure));
  // Else the direct path takes all that it can, and the built-in limits say by which protocol.
  if (choice_ == DevicePathChoice::automatic) {
    limits_ = LimitTable(parts.tuning, group_.rank, group_.size(), setup);
  }
  staging_ = std::make_unique<SharedStaging>(context_, group_, setup);
}

std::optional<Protocol> DirectPath::protocol_of(const CheckedCollective& call) const {
  const auto limits = limits_.of(call.operation);
  if (limits.packets == 0 && limits.windows == 0) return std::nullopt;
  const auto sent = call.count * size_of(call.type) * static_cast<std::size_t>(group_.size() - 1);
  const auto has = [&](Protocol protocol) {
    return has_kernel(protocol, call.operation, call.type, call.op);
  };
  const bool always = choice_ == DevicePathChoice::direct;
  if (sent > limits.packets && (always || sent <= limits.windows) && has(Protocol::windows) &&
      is_in_windows(call)) {
    return Protocol::windows;
  }
  if (sent > limits.packets && (always || sent <= limits.chunks) && has(Protocol::chunks)) {
    return Protocol::chunks;
  }
  if ((always || sent <= limits.packets) && has(Protocol::packets)) return Protocol::packets;
  return std::nullopt;
}

bool DirectPath::is_in_windows(const CheckedCollective& call) const {
  const auto buffers = accessed(call, group_.size());
  const auto& windows = staging_->windows();
  return (buffers.send == nullptr || windows.find(buffers.send, buffers.send_bytes)) &&
         (buffers.recv == nullptr || windows.find(buffers.recv, buffers.recv_bytes));
}

void DirectPath::add_places(const CheckedCollective& call, Call& described) const {
  const auto buffers = accessed(call, group_.size());
  const auto& windows = staging_->windows();
  if (buffers.send != nullptr) {
    described.places[send_buffer] = windows.find(buffers.send, buffers.send_bytes)->in_one_word();
  }
  if (buffers.recv != nullptr) {
    described.places[recv_buffer] = windows.find(buffers.recv, buffers.recv_bytes)->in_one_word();
  }
}

CudaResult DirectPath::queue(const CheckedCollective& call, Protocol protocol, CudaStream stream) {
  auto described = describe(call, group_.rank, group_.size());
  if (call.operation == Operation::barrier) {
    described.send = staging_->of(group_.rank);
    described.block_bytes = data_in_packet;
  }
  if (described.block_bytes == 0) return cuda_success;
  for (int rank = 0; rank < group_.size(); ++rank) described.staging[rank] = staging_->of(rank);
  described.abort_flag = staging_->abort_flag();
  if (protocol == Protocol::windows) add_places(call, described);
  const auto shape = launch_shape(protocol, call.operation, described);
  described.share = shape.share;
  const auto ordered = order(protocol, static_cast<int>(shape.channels), described, stream);
  if (ordered != cuda_success) return ordered;
  auto* const kernel = kernels_->at(*kernel_name(protocol, call.operation, call.type, call.op));
  void* arguments[] = {&described};  // NOLINT(modernize-avoid-c-arrays): CUDA's interface
  return context_->cuda().launch(kernel, shape.channels, 1, 1, shape.threads, 1, 1, 0, stream,
                                 arguments, nullptr);
}

CudaResult DirectPath::order(Protocol protocol, int channels, Call& call, CudaStream stream) {
  const auto& cuda = context_->cuda();
  int status = not_capturing;
  const auto known = cuda.stream_is_capturing(stream, &status);
  // A graph runs later, perhaps several times: the program orders it.
  if (known == cuda_success && status != not_capturing) return cuda_success;
  unsigned long long id = 0;
  auto result = cuda.stream_id(stream, &id);
  if (result != cuda_success) return result;
  call.turn = ++turn_;
  const Channel own{call, protocol, 0};
  for (int channel = 0; channel < channels; ++channel) {
    auto& latest = latest_[static_cast<std::size_t>(protocol)][static_cast<std::size_t>(channel)];
    if (latest.turn != 0 && latest.stream != id) {
      result = cuda.stream_wait_value(stream, device_address(own.progress() + channel), latest.turn,
                                      wait_until_reached);
      if (result != cuda_success) return result;
    }
    latest.turn = turn_;
    latest.stream = id;
  }
  return cuda_success;
}

CudaResult DirectPath::follow(CudaStream stream) {
  const auto& cuda = context_->cuda();
  unsigned long long id = 0;
  if (const auto result = cuda.stream_id(stream, &id); result != cuda_success) return result;
  Call call;
  call.rank = group_.rank;
  call.size = group_.size();
  call.staging[group_.rank] = staging_->of(group_.rank);
  for (const auto protocol : all_protocols) {
    const Channel first{call, protocol, 0};
    for (int channel = 0; channel < max_channels; ++channel) {
      auto& latest = latest_[static_cast<std::size_t>(protocol)][static_cast<std::size_t>(channel)];
      if (latest.turn == 0 || latest.stream == id) continue;
      const auto result = cuda.stream_wait_value(stream, device_address(first.progress() + channel),
                                                 latest.turn, wait_until_reached);
      if (result != cuda_success) return result;
      latest.stream = id;
    }
  }
  return cuda_success;
}

std::optional<DirectPath::Progress> DirectPath::progress() {
  const auto found = staging_->read_progress();
  if (!found) return std::nullopt;
  Progress result{.all_done = true, .rounds = 0, .waits = found->waits};
  std::size_t at = 0;
  for (const auto& protocol : latest_) {
    for (const auto& latest : protocol) {
      const auto& channel = found->channels[at++];
      if (channel.data < latest.turn) result.all_done = false;
      result.rounds += channel.sequence;
    }
  }
  return result;
}

void DirectPath::abort() noexcept {
  is_aborted_.store(true);
  staging_->abort();
}

DirectPath::~DirectPath() {
  const auto& cuda = context_->cuda();
  CudaContext before = nullptr;
  cuda.get_context(&before);
  cuda.set_context(context_->handle());
  if (!is_aborted_ && close() != cuda_success) abort();
  if (is_aborted_) {
    // Kernels, here or on a peer, may still run and use them: they stay until the process ends.
    static_cast<void>(staging_.release());
    static_cast<void>(kernels_.release());
  } else {
    closing_->add(context_, std::move(staging_), std::move(kernels_));
    closing_->sweep();
  }
  cuda.set_context(before);
}

/// Queues a goodbye behind the calls on all channels.
CudaResult DirectPath::close() {
  Call call;
  call.rank = group_.rank;
  call.size = group_.size();
  call.staging[group_.rank] = staging_->of(group_.rank);
  for (const auto protocol : all_protocols) {
    const auto ordered = order(protocol, max_channels, call, staging_->stream());
    if (ordered != cuda_success) return ordered;
  }
  return staging_->queue_goodbye();
}

}  // namespace tutti::device::direct
