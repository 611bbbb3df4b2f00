// An NCCL without devices: libnccl.so.2 for tests. It moves and reduces the data between processes
// through a shared file, in the order of the (fake) streams.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fake_arithmetic.hpp"
#include "fake_gpu.hpp"

namespace fake_gpu {
namespace {

constexpr int success = 0;
constexpr int system_error = 2;
constexpr int internal_error = 3;
constexpr int in_progress = 7;
constexpr int max_ranks = 16;
constexpr int max_comms = 32;
constexpr std::size_t piece_bytes = std::size_t{64} << 10;

/// One piece of a message between two ranks.
struct Mailbox {
  std::atomic<std::uint32_t> full;
  std::uint32_t bytes;
  std::array<std::byte, piece_bytes> data;
};
/// What the ranks tell each other in a split.
struct Split {
  std::atomic<int> come;  ///< in all splits so far
  std::atomic<int> gone;
  std::uint64_t first_id;  ///< of the communicators that it makes
  std::array<std::array<int, 2>, max_ranks> colors_and_keys;
};
struct Communicator {
  std::atomic<std::uint64_t> id;
  std::atomic<int> joined;
  Split split;
  std::array<std::array<Mailbox, max_ranks>, max_ranks> boxes;  ///< [from][to]
};
struct SharedSegment {
  std::atomic<std::uint64_t> next_id;
  std::array<Communicator, max_comms> communicators;
};

SharedSegment& segment() {
  static SharedSegment* const mapped = [] {
    const char* const path = std::getenv("FAKE_NCCL_SEGMENT");
    const int file = path == nullptr ? -1 : ::open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(SharedSegment)) != 0) {
      std::fputs("the made-up NCCL needs FAKE_NCCL_SEGMENT\n", stderr);
      std::abort();
    }
    void* const memory =
        ::mmap(nullptr, sizeof(SharedSegment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    return static_cast<SharedSegment*>(memory);
  }();
  return *mapped;
}

struct Id {
  char bytes[128];
};
/// The first members of ncclConfig_t.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

/// Never freed, so a use after destruction is detected.
struct Comm {
  Communicator* communicator = nullptr;
  int rank = 0;
  int size = 1;
  int device = 0;
  std::atomic<bool> ready{true};
  std::atomic<bool> aborted{false};
  std::atomic<bool> over{false};
};

Comm& live(void* handle) {
  auto& comm = *static_cast<Comm*>(handle);
  if (comm.over) {
    std::fputs("a communicator is used after its end\n", stderr);
    std::abort();
  }
  return comm;
}

struct Transfer {
  bool sends = false;
  int peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t moved = 0;
  bool started = false;
  [[nodiscard]] bool done() const { return started && moved == bytes; }
};

/// One step of a transfer. Returns false if it must wait.
bool step(Comm& comm, Transfer& transfer) {
  auto& box = transfer.sends ? comm.communicator->boxes[static_cast<std::size_t>(comm.rank)]
                                                       [static_cast<std::size_t>(transfer.peer)]
                             : comm.communicator->boxes[static_cast<std::size_t>(transfer.peer)]
                                                       [static_cast<std::size_t>(comm.rank)];
  if ((box.full.load() != 0) == transfer.sends) return false;
  if (transfer.sends) {
    const auto bytes = std::min(piece_bytes, transfer.bytes - transfer.moved);
    box.bytes = static_cast<std::uint32_t>(bytes);
    std::memcpy(box.data.data(), transfer.data + transfer.moved, bytes);
    transfer.moved += bytes;
    box.full = 1;
  } else {
    // mismatched sizes: waits forever
    if (box.bytes > transfer.bytes - transfer.moved) return false;
    std::memcpy(transfer.data + transfer.moved, box.data.data(), box.bytes);
    transfer.moved += box.bytes;
    box.full = 0;
  }
  transfer.started = true;
  return true;
}

/// Runs all transfers concurrently; those with the same peer and direction in sequence. Returns
/// false if aborted.
bool move(Comm& comm, std::vector<Transfer> transfers) {
  for (auto& transfer : transfers) {
    transfer.data = static_cast<std::byte*>(fake_gpu_alias(transfer.data));
  }
  while (true) {
    bool all_done = true;
    bool moved = false;
    for (auto transfer = transfers.begin(); transfer != transfers.end(); ++transfer) {
      if (transfer->done()) continue;
      all_done = false;
      const bool is_first = std::none_of(transfers.begin(), transfer, [&](const Transfer& other) {
        return !other.done() && other.sends == transfer->sends && other.peer == transfer->peer;
      });
      if (is_first && step(comm, *transfer)) moved = true;
    }
    if (all_done) return true;
    if (comm.aborted) return false;
    if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// Work of one call on its stream.
struct Work {
  Comm* comm = nullptr;
  void* stream = nullptr;
  std::vector<Transfer> transfers;        ///< of sends and receives
  std::function<void(Comm&)> collective;  ///< or this
};

thread_local int depth = 0;
thread_local std::vector<Work> group;
std::string& trace() {
  static std::string text;
  return text;
}
void note(const std::string& what) {
  static std::mutex mutex;  // the communicator may be destroyed in another thread
  const std::lock_guard lock(mutex);
  trace() += what + ";";
}

/// Blocks if FAKE_NCCL_CALL_BLOCKS is set, as real calls do while two ranks connect.
int block_in_call(Comm& comm) {
  const int how = setting("FAKE_NCCL_CALL_BLOCKS", 0);
  while (how != 0 && (how == 2 || !comm.aborted)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return comm.aborted ? internal_error : success;
}

int submit() {
  // Sends and receives of a group run together.
  std::vector<Work> works;
  for (auto& work : group) {
    const bool joins = !work.collective && !works.empty() && !works.back().collective &&
                       works.back().comm == work.comm && works.back().stream == work.stream;
    if (joins) {
      works.back().transfers.insert(works.back().transfers.end(), work.transfers.begin(),
                                    work.transfers.end());
    } else {
      works.push_back(std::move(work));
    }
  }
  group.clear();
  for (auto& work : works) {
    if (const int result = block_in_call(*work.comm); result != success) return result;
    auto* const comm = work.comm;
    const std::function<void()> action = [comm, work] {
      if (work.collective) {
        work.collective(*comm);
      } else {
        move(*comm, work.transfers);
      }
    };
    fake_gpu_enqueue(work.stream, &action);
  }
  return success;
}

int add(Work work) {
  if (const int result = setting("FAKE_NCCL_CALL_RESULT", success); result != success) {
    return result;
  }
  group.push_back(std::move(work));
  return depth == 0 ? submit() : success;
}

std::byte* bytes_at(const void* memory) {
  return static_cast<std::byte*>(const_cast<void*>(memory));
}

/// All ranks' `bytes` at `own`, in rank order.
std::vector<std::vector<std::byte>> gather_all(Comm& comm, const std::byte* own,
                                               std::size_t bytes) {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(comm.size),
                                          std::vector<std::byte>(bytes));
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < comm.size; ++peer) {
    if (peer == comm.rank) {
      std::memcpy(all[static_cast<std::size_t>(peer)].data(), own, bytes);
      continue;
    }
    transfers.push_back({true, peer, const_cast<std::byte*>(own), bytes});
    transfers.push_back({false, peer, all[static_cast<std::size_t>(peer)].data(), bytes});
  }
  move(comm, std::move(transfers));
  return all;
}

/// Operators made at run time: their factors, by number less `first_made`. Destroyed ones are
/// empty.
constexpr int first_made = 5;
std::vector<std::optional<double>>& made_operators() {
  static std::vector<std::optional<double>> factors;
  return factors;
}
/// Empty for NCCL's own operators. Throws std::bad_optional_access for a destroyed one.
std::optional<double> factor_of(int op) {
  if (op < first_made) return std::nullopt;
  return made_operators().at(static_cast<std::size_t>(op - first_made)).value();
}

/// `to` = the reduction of `count` elements from element `first` on.
void reduce_into(Comm& comm, const void* from, void* to, std::size_t total, std::size_t first,
                 std::size_t count, int type, int op, std::optional<double> factor) {
  const auto size = size_of(type);
  const auto* own = static_cast<const std::byte*>(fake_gpu_alias(from));
  std::vector<std::byte> product;
  if (factor) {
    product.resize(total * size);
    multiply(product.data(), own, total, type, *factor);
    own = product.data();
    op = 0;
  }
  const auto all = gather_all(comm, own, total * size);
  if (to == nullptr || comm.aborted) return;
  std::vector<const std::byte*> parts;
  for (const auto& one : all) parts.push_back(one.data() + first * size);
  reduce(static_cast<std::byte*>(fake_gpu_alias(to)), parts, count, type, op);
}

}  // namespace

extern "C" {

const char* fake_nccl_trace() {
  return trace().c_str();
}
void fake_nccl_clear_trace() {
  trace().clear();
}

int ncclGetVersion(int* version) {
  *version = setting("FAKE_NCCL_VERSION", 22809);
  return success;
}
int ncclGetUniqueId(Id* id) {
  while (setting("FAKE_NCCL_ID_HANGS", 0) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (const int result = setting("FAKE_NCCL_ID_RESULT", success); result != success) return result;
  const auto number = ++segment().next_id;
  std::memcpy(id->bytes, &number, sizeof number);
  note("id " + std::to_string(number));
  return success;
}
static int init_rank(void** comm, int ranks, const Id& id, int rank, bool blocks) {
  while (setting("FAKE_NCCL_INIT_HANGS", 0) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (const int result = setting("FAKE_NCCL_INIT_RESULT", success); result != success) {
    return result;
  }
  std::uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  if (number == 0 || ranks > max_ranks) return system_error;
  auto* const made = new Comm;
  made->communicator = &segment().communicators[number % max_comms];
  made->rank = rank;
  made->size = ranks;
  made->device = fake_gpu_current_device();
  ++made->communicator->joined;
  *comm = made;
  const auto join = [made] {
    while (made->communicator->joined < made->size) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    made->ready = true;
  };
  if (!blocks) {
    made->ready = false;
    std::thread(join).detach();
    return in_progress;
  }
  join();
  note("init " + std::to_string(ranks) + " " + std::to_string(rank));
  return success;
}
int ncclCommInitRank(void** comm, int ranks, Id id, int rank) {
  return init_rank(comm, ranks, id, rank, true);
}
int ncclCommInitRankConfig(void** comm, int ranks, Id id, int rank, const Config* config) {
  return init_rank(comm, ranks, id, rank, config == nullptr || config->blocking != 0);
}
int ncclCommCount(void* comm, int* count) {
  *count = live(comm).size;
  return success;
}
int ncclCommUserRank(void* comm, int* rank) {
  *rank = live(comm).rank;
  return success;
}
int ncclCommCuDevice(void* comm, int* device) {
  *device = live(comm).device;
  return success;
}
int ncclCommSplit(void* handle, int color, int key, void** made, void*) {
  auto& comm = live(handle);
  auto& split = comm.communicator->split;
  const auto wait_for_all = [&](std::atomic<int>& counter) {
    const int due = (counter++ / comm.size + 1) * comm.size;
    while (counter < due) std::this_thread::sleep_for(std::chrono::microseconds(100));
  };
  split.colors_and_keys[static_cast<std::size_t>(comm.rank)] = {color, key};
  if (comm.rank == 0) {
    split.first_id = segment().next_id.fetch_add(static_cast<std::uint64_t>(comm.size)) + 1;
  }
  wait_for_all(split.come);
  int place = 0;
  int size = 0;
  std::uint64_t number = split.first_id;
  for (int rank = comm.size - 1; rank >= 0; --rank) {
    const auto& [other_color, other_key] = split.colors_and_keys[static_cast<std::size_t>(rank)];
    if (other_color != color) continue;
    ++size;
    if (other_key < key || (other_key == key && rank < comm.rank)) ++place;
    number = split.first_id + static_cast<std::uint64_t>(rank);  // the lowest member's
  }
  wait_for_all(split.gone);
  note("split");
  *made = nullptr;
  if (color < 0) return success;
  Id id{};
  std::memcpy(id.bytes, &number, sizeof number);
  return init_rank(made, size, id, place, true);
}
int ncclCommFinalize(void* comm) {
  live(comm);
  note("finalize");
  return success;
}
int ncclCommDestroy(void* comm) {
  live(comm).over = true;
  note("destroy");
  return success;
}
int ncclCommAbort(void* comm) {
  auto& aborted = live(comm);
  aborted.aborted = true;
  while (setting("FAKE_NCCL_ABORT_HANGS", 0) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  aborted.over = true;
  note("abort");
  return success;
}
int ncclCommGetAsyncError(void* comm, int* result) {
  *result = live(comm).ready ? setting("FAKE_NCCL_ASYNC_RESULT", success) : in_progress;
  return success;
}
const char* ncclGetErrorString(int) {
  return "made up";
}
const char* ncclGetLastError(void*) {
  return "";
}

int ncclGroupStart() {
  ++depth;
  note("group");
  return success;
}
int ncclGroupEnd() {
  note("end");
  return --depth > 0 ? success : submit();
}

int ncclSend(const void* from, std::size_t count, int type, int peer, void* comm, void* stream) {
  note("send " + std::to_string(count) + " to " + std::to_string(peer));
  return add({&live(comm), stream, {{true, peer, bytes_at(from), count * size_of(type)}}, {}});
}
int ncclRecv(void* to, std::size_t count, int type, int peer, void* comm, void* stream) {
  note("recv " + std::to_string(count) + " from " + std::to_string(peer));
  return add({&live(comm), stream, {{false, peer, bytes_at(to), count * size_of(type)}}, {}});
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* comm,
                  void* stream) {
  note("broadcast " + std::to_string(count) + " from " + std::to_string(root));
  const auto bytes = count * size_of(type);
  return add({&live(comm), stream, {}, [=](Comm& mine) {
                std::vector<Transfer> transfers;
                if (mine.rank != root) transfers.push_back({false, root, bytes_at(to), bytes});
                for (int peer = 0; mine.rank == root && peer < mine.size; ++peer) {
                  if (peer != root) transfers.push_back({true, peer, bytes_at(from), bytes});
                }
                if (mine.rank == root && from != to) {
                  std::memcpy(fake_gpu_alias(to), fake_gpu_alias(from), bytes);
                }
                move(mine, std::move(transfers));
              }});
}
int ncclBcast(void* buffer, std::size_t count, int type, int root, void* comm, void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root,
               void* comm, void* stream) {
  note("reduce " + std::to_string(count) + " to " + std::to_string(root));
  const auto factor = factor_of(op);
  return add({&live(comm), stream, {}, [=](Comm& mine) {
                reduce_into(mine, from, mine.rank == root ? to : nullptr, count, 0, count, type, op,
                            factor);
              }});
}
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, void* comm,
                  void* stream) {
  note("all_reduce " + std::to_string(count));
  const auto factor = factor_of(op);
  return add({&live(comm), stream, {}, [=](Comm& mine) {
                reduce_into(mine, from, to, count, 0, count, type, op, factor);
              }});
}
int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* comm,
                  void* stream) {
  note("all_gather " + std::to_string(count));
  const auto bytes = count * size_of(type);
  return add({&live(comm), stream, {}, [=](Comm& mine) {
                const auto* own = static_cast<const std::byte*>(fake_gpu_alias(from));
                const auto all = gather_all(mine, own, bytes);
                if (mine.aborted) return;
                auto* target = static_cast<std::byte*>(fake_gpu_alias(to));
                for (const auto& one : all) {
                  std::memcpy(target, one.data(), bytes);
                  target += bytes;
                }
              }});
}
int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int op, void* comm,
                      void* stream) {
  note("reduce_scatter " + std::to_string(count));
  const auto factor = factor_of(op);
  return add({&live(comm), stream, {}, [=](Comm& mine) {
                reduce_into(mine, from, to, count * static_cast<std::size_t>(mine.size),
                            count * static_cast<std::size_t>(mine.rank), count, type, op, factor);
              }});
}

int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, void* comm) {
  live(comm);
  if (residence != 1) return system_error;
  auto& made = made_operators();
  *op = first_made + static_cast<int>(made.size());
  made.emplace_back(number_at(static_cast<const std::byte*>(scalar), type));
  return success;
}
int ncclRedOpDestroy(int op, void* comm) {
  live(comm);
  made_operators().at(static_cast<std::size_t>(op - first_made)).reset();
  return success;
}

}  // extern "C"

}  // namespace fake_gpu
