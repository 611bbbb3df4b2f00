// Plain NCCL on its own communicator, with the same device buffers.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <span>

#include "../catalogue.hpp"
#include "device/library.hpp"
#include "device/nccl_numbers.hpp"
#include "peers.hpp"

namespace tutti::app::bench {
namespace {

using device::NcclResult;

class NcclPeer final : public Peer {
 public:
  NcclPeer(JobSession& job, device::Library<device::NcclCalls> library, int version, bool serial)
      : Peer(serial ? "nccl-serial" : "nccl", device::nccl_version_text(version)),
        library_(std::move(library)),
        version_(version),
        serial_(serial),
        memory_(job.device_memory()),
        token_(memory_->allocate(sizeof(float))) {
    auto& communicator = job.communicator();
    device::NcclUniqueId id{};
    NcclResult result = device::nccl_success;
    if (communicator.rank() == 0) result = calls().get_unique_id(&id);
    communicator.broadcast(std::span(id.bytes), 0);
    communicator.broadcast(std::span(&result, 1), 0);
    check(result);
    check(calls().init_rank(&comm_, communicator.size(), id, communicator.rank()));
  }
  ~NcclPeer() override {
    if (comm_ != nullptr) calls().destroy(comm_);
    memory_->free(token_);
  }

  std::string prepare(const Task& task) override {
    const auto& spec = task.spec;
    if (serial_ && spec.operation != Operation::fan_out) return "only for fan-out";
    const bool reduces = shape_of(spec).reduces;
    const auto op = device::nccl_operator(spec.type, spec.op);
    const bool in_parts = part_of(spec.type) != spec.type;
    const bool has_type =
        !device::is_8_bit_float(spec.type) || version_ >= device::nccl_version_of_8_bit_floats;
    if (reduces && (!op || !has_type || shape_of(spec).scans)) {
      return fmt::format("NCCL {} has no {} of {} by {}", version(), shown_name(spec.operation),
                         tutti::name(spec.type), tutti::name(spec.op));
    }
    type_ = reduces ? device::nccl_type(spec.type) : device::nccl_moved_type(spec.type);
    op_ = op.value_or(0);
    task_ = task;
    count_ = in_parts ? 2 * spec.count : spec.count;
    block_bytes_ = spec.count * size_of(spec.type);
    stream_ = task.stream->handle;
    input_ = task.layout.shared ? at(task.recv, task.layout.input_at) : at(task.send, 0);
    result_ = at(task.recv, task.layout.result_at);
    return {};
  }

  void run() override {
    switch (task_.spec.operation) {
      case Operation::broadcast:
        return check(calls().broadcast(result_, result_, count_, type_, root(), comm_, stream_));
      case Operation::all_reduce:
        return check(calls().all_reduce(input_, result_, count_, type_, op_, comm_, stream_));
      case Operation::reduce:
        return check(calls().reduce(input_, result_, count_, type_, op_, root(), comm_, stream_));
      case Operation::all_gather:
        return check(calls().all_gather(input_, result_, count_, type_, comm_, stream_));
      case Operation::reduce_scatter:
        return check(calls().reduce_scatter(input_, result_, count_, type_, op_, comm_, stream_));
      case Operation::barrier:
        return check(calls().all_reduce(token_, token_, 1, float_type, 0, comm_, stream_));
      default:
        return exchange();
    }
  }

 private:
  static constexpr int float_type = 7;

  [[nodiscard]] const device::NcclCalls& calls() const { return library_.calls; }
  [[nodiscard]] int root() const { return task_.spec.root; }
  [[nodiscard]] bool is_root() const { return task_.spec.rank == root(); }

  void check(NcclResult result) const {
    if (result == device::nccl_success) return;
    throw Error(ErrorCode::system, device::nccl_error_text(calls(), comm_, result));
  }

  [[nodiscard]] std::byte* at(void* buffer, std::size_t element) const {
    return static_cast<std::byte*>(buffer) + element * size_of(task_.spec.type);
  }
  [[nodiscard]] std::byte* block(std::byte* buffer, int rank) const {
    return buffer + static_cast<std::size_t>(rank) * block_bytes_;
  }
  void send(const std::byte* from, int to) const {
    check(calls().send(from, count_, type_, to, comm_, stream_));
  }
  void recv(std::byte* to, int from) const {
    check(calls().recv(to, count_, type_, from, comm_, stream_));
  }

  /// Operations without an NCCL call: sends and receives in one group.
  void exchange() {
    if (serial_) return queue_exchange();
    check(calls().group_start());
    queue_exchange();
    check(calls().group_end());
  }

  void queue_exchange() {
    switch (task_.spec.operation) {
      case Operation::fan_out:
        return queue_fan_out();
      case Operation::gather:
        return queue_gather();
      case Operation::scatter:
        return queue_scatter();
      case Operation::send_recv:
        send(input_, next_of(task_.spec));
        return recv(result_, previous_of(task_.spec));
      default:
        for (int rank = 0; rank < task_.spec.ranks; ++rank) {
          send(block(input_, rank), rank);
          recv(block(result_, rank), rank);
        }
    }
  }

  void queue_fan_out() {
    if (!is_root()) return recv(result_, root());
    for (int rank = 0; rank < task_.spec.ranks; ++rank) {
      if (rank != root()) send(input_, rank);
    }
  }

  void queue_gather() {
    const bool own_is_there = is_root() && task_.layout.shared;
    if (!own_is_there) send(input_, root());
    if (!is_root()) return;
    for (int rank = 0; rank < task_.spec.ranks; ++rank) {
      if (rank != root() || !own_is_there) recv(block(result_, rank), rank);
    }
  }

  void queue_scatter() {
    const bool own_is_there = is_root() && task_.layout.shared;
    if (!own_is_there) recv(result_, root());
    if (!is_root()) return;
    for (int rank = 0; rank < task_.spec.ranks; ++rank) {
      if (rank != root() || !own_is_there) send(block(input_, rank), rank);
    }
  }

  device::Library<device::NcclCalls> library_;
  int version_;
  bool serial_;
  std::shared_ptr<device::DeviceMemory> memory_;
  void* token_;
  device::NcclComm comm_ = nullptr;
  Task task_;
  std::size_t count_ = 0;
  std::size_t block_bytes_ = 0;
  int type_ = 0;
  int op_ = 0;
  void* stream_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* result_ = nullptr;
};

}  // namespace

std::unique_ptr<Peer> make_nccl_peer(JobSession& job, bool serial) {
  auto library = device::load_nccl();
  if (!library.usable()) {
    // Only if NCCL was removed since the device path loaded it.
    throw Error(ErrorCode::system, "NCCL can't be loaded: " + library.missing);
  }
  int version = 0;
  library.calls.get_version(&version);
  return std::make_unique<NcclPeer>(job, std::move(library), version, serial);
}

}  // namespace tutti::app::bench
