// Plain NCCL on its own communicator, with the same device buffers or with registered windows.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <optional>
#include <span>

#include "../catalogue.hpp"
#include "device/library.hpp"
#include "device/nccl_numbers.hpp"
#include "implementations.hpp"
#include "nccl_windows.hpp"

namespace tutti::app::bench {
namespace {

using device::NcclResult;

class NcclImplementation final : public Implementation {
 public:
  NcclImplementation(JobSession& job, device::Library<device::NcclCalls> library, int version,
                     NcclForm form)
      : Implementation(name_of(form), device::nccl_version_text(version)),
        library_(std::move(library)),
        version_(version),
        form_(form),
        communicator_(job.communicator()),
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
    if (form_ == NcclForm::windows) windows_.emplace(library_, comm_);
  }
  ~NcclImplementation() override {
    windows_.reset();
    if (comm_ != nullptr) calls().destroy(comm_);
    memory_->free(token_);
  }

  std::string prepare(const Task& task) override {
    const auto& spec = task.spec;
    if (form_ == NcclForm::serial && spec.operation != Operation::fan_out)
      return "only for fan-out";
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
    if (windows_) {
      auto missing = use_windows();
      if (!missing.empty()) return missing;
    }
    input_ = task.layout.shared ? at(task_.recv, task.layout.input_at) : at(task_.send, 0);
    result_ = at(task_.recv, task.layout.result_at);
    return {};
  }

  void take_input() override {
    if (!windows_) return;
    copy(windows_->send(), theirs_.send, bytes_of(theirs_.layout.send_elements));
    copy(windows_->recv(), theirs_.recv, bytes_of(theirs_.layout.recv_elements));
  }
  void place_result() override {
    if (windows_) copy(theirs_.recv, windows_->recv(), bytes_of(theirs_.layout.recv_elements));
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

  static const char* name_of(NcclForm form) {
    switch (form) {
      case NcclForm::grouped:
        return "nccl";
      case NcclForm::serial:
        return "nccl-serial";
      case NcclForm::windows:
        return "nccl-windows";
    }
    return "";
  }

  /// Replaces the task's buffers by windows. Returns why there are none, the same on all ranks.
  [[nodiscard]] std::string use_windows() {
    theirs_ = task_;
    auto missing = of_any(windows_->allocate(bytes_of(task_.layout.send_elements),
                                             bytes_of(task_.layout.recv_elements)));
    if (missing.empty()) missing = of_any(windows_->add());
    if (!missing.empty()) return missing;
    task_.send = windows_->send();
    task_.recv = windows_->recv();
    return {};
  }
  /// Not empty on all ranks if it is not on one. Collective.
  [[nodiscard]] std::string of_any(std::string missing) const {
    int is_missing = missing.empty() ? 0 : 1;
    communicator_.all_reduce(in_place, std::span(&is_missing, 1), max);
    if (is_missing != 0 && missing.empty()) missing = "another rank can't use windows";
    return missing;
  }
  [[nodiscard]] std::size_t bytes_of(std::size_t elements) const {
    return elements * size_of(task_.spec.type);
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes != 0) memory_->copy_on_device(to, from, bytes);
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
    if (form_ == NcclForm::serial) return queue_exchange();
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
  NcclForm form_;
  Communicator& communicator_;
  std::shared_ptr<device::DeviceMemory> memory_;
  void* token_;
  device::NcclComm comm_ = nullptr;
  std::optional<NcclWindows> windows_;
  Task task_;
  Task theirs_;  ///< with the buffers that the windows stand for
  std::size_t count_ = 0;
  std::size_t block_bytes_ = 0;
  int type_ = 0;
  int op_ = 0;
  void* stream_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* result_ = nullptr;
};

}  // namespace

std::unique_ptr<Implementation> make_nccl_implementation(JobSession& job, NcclForm form) {
  auto library = device::load_nccl();
  if (!library.usable()) {
    // Only if NCCL was removed since the device path loaded it.
    throw Error(ErrorCode::system, "NCCL can't be loaded: " + library.missing);
  }
  int version = 0;
  library.calls.get_version(&version);
  return std::make_unique<NcclImplementation>(job, std::move(library), version, form);
}

}  // namespace tutti::app::bench
