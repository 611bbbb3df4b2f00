#include "nccl_program.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "device/nccl_numbers.hpp"
#include "gpu/numbers.hpp"

namespace tutti::preload_test {
namespace {

using namespace std::chrono_literals;

/// Where the buffers of a call are, and what is in them.
class Problem {
 public:
  Problem(const NcclComm& comm, DeviceMemory& memory, const Call& call, std::uint64_t seed)
      : comm_(comm),
        call_(call),
        source_{.type = call.type, .op = call.op, .seed = seed, .ranks = comm.size()},
        send_elements_(call.count * (call.kind == Kind::reduce_scatter ? ranks() : 1)),
        recv_elements_(call.count * (call.kind == Kind::all_gather ? ranks() : 1)),
        send_(memory, bytes(send_elements_), bytes(call.offset)),
        recv_(memory, bytes(recv_elements_), bytes(call.offset)) {
    recv_.poison();
    send_.upload(gpu_test::contribution(source_, comm.rank(), 0, send_elements_));
    if (call.kind == Kind::bcast || (call.kind == Kind::broadcast && call.in_place)) {
      if (comm.rank() == call.root) recv_.upload(send_.download());
    } else if (call.in_place && call.kind == Kind::all_gather) {
      recv_.upload(send_.download(), bytes(own_begin()));
    }
  }

  void queue(void* stream) {
    const auto type = device::nccl_type(call_.type);
    const auto op = device::nccl_operator(call_.type, call_.op).value_or(0);
    void* const comm = comm_.handle();
    auto* const send = send_.data();
    auto* const recv = recv_.data();
    switch (call_.kind) {
      case Kind::all_reduce:
        return check(
            ncclAllReduce(send, call_.in_place ? send : recv, call_.count, type, op, comm, stream),
            "ncclAllReduce");
      case Kind::broadcast:
        return check(ncclBroadcast(call_.in_place ? recv : send, recv, call_.count, type,
                                   call_.root, comm, stream),
                     "ncclBroadcast");
      case Kind::bcast:
        return check(ncclBcast(recv, call_.count, type, call_.root, comm, stream), "ncclBcast");
      case Kind::all_gather:
        return check(ncclAllGather(call_.in_place ? recv + bytes(own_begin()) : send, recv,
                                   call_.count, type, comm, stream),
                     "ncclAllGather");
      case Kind::reduce_scatter:
        return check(ncclReduceScatter(send, call_.in_place ? send + bytes(own_begin()) : recv,
                                       call_.count, type, op, comm, stream),
                     "ncclReduceScatter");
      case Kind::reduce:
        return check(ncclReduce(send, recv, call_.count, type, op, call_.root, comm, stream),
                     "ncclReduce");
      case Kind::send_recv: {
        const int size = comm_.size();
        check(ncclGroupStart(), "ncclGroupStart");
        check(ncclSend(send, call_.count, type, (comm_.rank() + 1) % size, comm, stream),
              "ncclSend");
        check(ncclRecv(recv, call_.count, type, (comm_.rank() + size - 1) % size, comm, stream),
              "ncclRecv");
        return check(ncclGroupEnd(), "ncclGroupEnd");
      }
    }
  }

  [[nodiscard]] std::string difference() const {
    const bool from_send =
        call_.in_place && (call_.kind == Kind::all_reduce || call_.kind == Kind::reduce_scatter);
    const auto found = from_send ? send_.download() : recv_.download();
    const auto first =
        call_.in_place && call_.kind == Kind::reduce_scatter ? bytes(own_begin()) : 0;
    if (call_.kind == Kind::reduce && comm_.rank() != call_.root) return {};
    for (std::size_t i = 0; i < recv_elements_; ++i) {
      const auto* const at = found.data() + first + bytes(i);
      const auto wrong =
          reduces() ? gpu_test::difference(source_, reduced_index(i), at) : moved_difference(i, at);
      if (!wrong.empty()) return fmt::format("{}: element {}: {}", call_.text(), i, wrong);
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  [[nodiscard]] std::size_t bytes(std::size_t elements) const {
    return elements * size_of(call_.type);
  }
  [[nodiscard]] std::size_t own_begin() const {
    return static_cast<std::size_t>(comm_.rank()) * call_.count;
  }
  [[nodiscard]] bool reduces() const {
    return call_.kind == Kind::all_reduce || call_.kind == Kind::reduce ||
           call_.kind == Kind::reduce_scatter;
  }
  [[nodiscard]] std::size_t reduced_index(std::size_t i) const {
    return call_.kind == Kind::reduce_scatter ? own_begin() + i : i;
  }
  [[nodiscard]] std::string moved_difference(std::size_t i, const std::byte* found) const {
    int from = call_.root;
    std::size_t index = i;
    if (call_.kind == Kind::all_gather) {
      from = static_cast<int>(i / call_.count);
      index = i % call_.count;
    } else if (call_.kind == Kind::send_recv) {
      from = (comm_.rank() + comm_.size() - 1) % comm_.size();
    }
    std::array<std::byte, 16> due{};
    gpu_test::write_element(source_, from, index, due.data());
    return std::memcmp(due.data(), found, size_of(call_.type)) == 0
               ? std::string()
               : fmt::format("not what rank {} sent", from);
  }

  const NcclComm& comm_;
  const Call& call_;
  gpu_test::Source source_;
  std::size_t send_elements_;
  std::size_t recv_elements_;
  DeviceBuffer send_;
  DeviceBuffer recv_;
};

device::NcclUniqueId share_id(Rank& rank) {
  device::NcclUniqueId id{};
  if (rank.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<std::byte> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  bytes = rank.bootstrap().broadcast(bytes, 0, Deadline::after(60s));
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

}  // namespace

void check(int result, const char* doing) {
  if (result == device::nccl_success || result == device::nccl_in_progress) return;
  throw std::runtime_error(fmt::format("{} returned {}; its last message: {}", doing, result,
                                       ncclGetLastError(nullptr)));
}

void check_cuda(int result, const char* doing) {
  if (result != 0) throw std::runtime_error(fmt::format("{} returned {}", doing, result));
}

NcclComm::NcclComm(Rank& rank) : rank_(rank.rank()), size_(rank.size()) {
  check(ncclCommInitRank(&handle_, size_, share_id(rank), rank_), "ncclCommInitRank");
}

NcclComm NcclComm::nonblocking(Rank& rank) {
  // NCCL_CONFIG_INITIALIZER of NCCL 2.28: what is not set is INT_MIN or null.
  struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 22800;
    int blocking = 0;
    std::array<int, 3> ctas{INT_MIN, INT_MIN, INT_MIN};
    const char* net_name = nullptr;
    std::array<int, 2> sharing{INT_MIN, INT_MIN};
    const char* name = nullptr;
    std::array<int, 6> rest{INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN};
  } config;
  NcclComm comm(nullptr, rank.rank(), rank.size());
  comm.is_blocking_ = false;
  const auto id = share_id(rank);
  check(ncclCommInitRankConfig(&comm.handle_, rank.size(), id, rank.rank(), &config),
        "ncclCommInitRankConfig");
  comm.wait();
  return comm;
}

void NcclComm::wait() const {
  int state = is_blocking_ ? device::nccl_success : device::nccl_in_progress;
  while (state == device::nccl_in_progress) {
    std::this_thread::sleep_for(100us);
    check(ncclCommGetAsyncError(handle_, &state), "ncclCommGetAsyncError");
  }
  check(state, "the communicator");
}

NcclComm::NcclComm(NcclComm&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      is_blocking_(other.is_blocking_),
      rank_(other.rank_),
      size_(other.size_) {}

NcclComm::~NcclComm() {
  if (handle_ != nullptr) ncclCommDestroy(handle_);
}

NcclComm NcclComm::split(int color, int key, int place, int size) const {
  void* made = nullptr;
  check(ncclCommSplit(handle_, color, key, &made, nullptr), "ncclCommSplit");
  return {made, place, size};
}

void* NcclComm::release() {
  return std::exchange(handle_, nullptr);
}

std::string Call::text() const {
  constexpr std::array names{"ncclAllReduce",     "ncclBroadcast", "ncclBcast", "ncclAllGather",
                             "ncclReduceScatter", "ncclReduce",    "ncclSend"};
  return fmt::format("{} of {} {} by {}, root {}, offset {}{}",
                     names.at(static_cast<std::size_t>(kind)), count, name(type), name(op), root,
                     offset, in_place ? ", in place" : "");
}

std::string run(const NcclComm& comm, DeviceMemory& memory, const Call& call, std::uint64_t seed,
                bool in_group) {
  Problem problem(comm, memory, call, seed);
  if (in_group) check(ncclGroupStart(), "ncclGroupStart");
  problem.queue(memory.stream());
  if (in_group) check(ncclGroupEnd(), "ncclGroupEnd");
  comm.wait();
  synchronize(memory.stream());
  return problem.difference();
}

bool is_simulated() {
  return std::getenv("FAKE_NCCL_SEGMENT") != nullptr;
}

Call random_call(std::mt19937_64& random, int ranks, std::size_t max_bytes) {
  const auto below = [&](std::size_t limit) { return random() % limit; };
  Call call;
  call.kind = static_cast<Kind>(below(kinds));
  do {
    call.type = static_cast<Type>(below(10));
  } while (is_simulated() && (call.type == Type::f16 || call.type == Type::bf16));
  // Averages of integers are rounded by NCCL as it likes.
  const bool is_float = call.type >= Type::f16;
  call.op = static_cast<Operator>(below(4));
  if (is_float && below(5) == 0) call.op = Operator::average;
  call.root = static_cast<int>(below(static_cast<std::size_t>(ranks)));
  call.in_place = below(2) == 0;
  std::size_t exponents = 0;
  while (std::size_t{1} << exponents < max_bytes) ++exponents;
  const auto magnitude = std::size_t{1} << below(exponents + 1);
  call.count = below(std::min(magnitude, max_bytes) + 1) / size_of(call.type);
  call.offset = below(2) == 0 ? 0 : below(20);
  return call;
}

void hold_up(void* stream) {
  using Launch = int (*)(void* stream, void (*function)(void*), void* data);
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  const auto launch =
      reinterpret_cast<Launch>(driver == nullptr ? nullptr : ::dlsym(driver, "cuLaunchHostFunc"));
  if (launch == nullptr) throw std::runtime_error("the driver has no cuLaunchHostFunc");
  const auto wait = [](void*) { std::this_thread::sleep_for(2500ms); };
  check_cuda(launch(stream, wait, nullptr), "cuLaunchHostFunc");
}

void synchronize(void* stream) {
  static const auto cuda = device::load_cuda();
  check_cuda(cuda.calls.synchronize_stream(stream), "cuStreamSynchronize");
}

}  // namespace tutti::preload_test
