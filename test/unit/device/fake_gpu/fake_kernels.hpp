#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "direct/chunks.hpp"
#include "direct/packets.hpp"
#include "direct/windows.hpp"
#include "tutti/types.hpp"

/// The library's kernels, run by the CPU: the same protocols, two threads for each channel.
namespace fake_gpu {

namespace direct = tutti::device::direct;

/// After the `turn`th look without success. The awaited thread may need this core, and many that
/// yield all the time would leave it little.
inline void pause(std::uint32_t turn) {
  constexpr std::uint32_t yields = 200;
  if (turn < yields) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

/// What the threads of one channel share.
class Block {
 public:
  static constexpr int threads = 2;

  /// Waits for all threads; true if all pass true.
  bool synchronize(bool goes_on) {
    if (!goes_on) all_go_on_.store(false);
    barrier_.arrive_and_wait();
    const bool result = all_go_on_.load();
    barrier_.arrive_and_wait();  // nobody changes it before all have read it
    return result;
  }

 private:
  std::barrier<> barrier_{threads};
  std::atomic<bool> all_go_on_{true};
};

/// The device addresses of one process are addresses.
inline std::byte* as_it_is(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

/// One thread of a channel. For chunks the first works and the second publishes.
struct Processor {
  int index = 0;
  int count = 1;
  int own = 0;
  Block* block = nullptr;
  std::byte* (*find)(std::uint64_t address) = as_it_is;  ///< memory at a device address

  [[nodiscard]] int channel() const { return index; }
  [[nodiscard]] int channels() const { return count; }
  [[nodiscard]] std::uint64_t thread() const { return static_cast<std::uint64_t>(own); }
  [[nodiscard]] std::uint64_t threads() const { return Block::threads; }
  [[nodiscard]] std::uint64_t workers() const { return 1; }
  [[nodiscard]] bool works() const { return own == 0; }
  [[nodiscard]] bool publishes() const { return own == 1; }
  [[nodiscard]] int publisher() const { return 0; }
  [[nodiscard]] int publishers() const { return 1; }
  [[nodiscard]] bool synchronize(bool goes_on) const { return block->synchronize(goes_on); }

  // Stores are releases here.
  void fence() const {}
  void fence_system() const {}
  [[nodiscard]] std::byte* reach(std::uint64_t address) const { return find(address); }
  /// In one access of 16 bytes, as on a GPU: most readers wait for the sequence number, but a
  /// stream waits for the data of a progress packet.
  void store(direct::Packet* to, const direct::Packet& packet) const {
    __extension__ using Whole = unsigned __int128;
    auto* const whole = reinterpret_cast<Whole*>(to);
    Whole value = 0;
    std::memcpy(&value, &packet, sizeof value);
    for (Whole before = 0;;) {
      const auto seen = __sync_val_compare_and_swap(whole, before, value);
      if (seen == before) return;
      before = seen;
    }
  }
  [[nodiscard]] direct::Packet load(const direct::Packet* from) const {
    const auto sequence = __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE);
    return {__atomic_load_n(&from->data, __ATOMIC_RELAXED), sequence};
  }
  // A GPU's loads have ended before what depends on them is stored; a CPU has to be told.
  void store(std::uint64_t* to, std::uint64_t value) const {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
  }
  [[nodiscard]] std::uint64_t load(const std::uint64_t* from) const {
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
  }
  void store_release(std::uint64_t* to, std::uint64_t value) const { store(to, value); }
  [[nodiscard]] std::uint64_t load_acquire(const std::uint64_t* from) const { return load(from); }
  [[nodiscard]] bool is_time_to_look_up(std::uint32_t turn) const {
    pause(turn);
    return true;
  }
  [[nodiscard]] std::uint32_t load(const std::uint32_t* from) const {
    return __atomic_load_n(from, __ATOMIC_RELAXED);
  }
};

/// Lanes of one type; 16-bit floats, which need rounding, are left to real devices.
template <class T, class Op>
struct Lanes {
  static constexpr int count = direct::data_in_packet / static_cast<int>(sizeof(T));
  T values[count];

  void add(std::uint64_t data, bool is_first) {
    T in[count];
    std::memcpy(in, &data, sizeof data);
    for (int lane = 0; lane < count; ++lane) {
      values[lane] = is_first ? in[lane] : static_cast<T>(Op()(values[lane], in[lane]));
    }
  }
  [[nodiscard]] std::uint64_t value(int) const {
    std::uint64_t data;
    std::memcpy(&data, values, sizeof data);
    return data;
  }
};

using Kernel = std::function<void(const direct::Call&, const Processor&)>;

struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

template <class T>
Kernel find_reduction(const std::string& op, const std::string& protocol) {
  const auto choose = [&](auto of) -> Kernel {
    using Arithmetic = Lanes<T, decltype(of)>;
    if (protocol == "chunks") {
      return direct::exchange_chunks<direct::ReduceChunks<Arithmetic>, Processor>;
    }
    if (protocol == "windows") {
      return direct::exchange_windows<direct::ReduceWindows<Arithmetic>, Processor>;
    }
    return direct::exchange_packets<direct::ReducePackets<Arithmetic>, Processor>;
  };
  if (op == "sum") return choose(std::plus<>());
  if (op == "product") return choose(std::multiplies<>());
  if (op == "min") return choose(Smaller());
  if (op == "max") return choose(Larger());
  return nullptr;
}

/// The kernel of that name; null if there is none here.
inline Kernel find_kernel(const std::string& name) {
  const std::string prefix = "tutti_direct_";
  if (!name.starts_with(prefix)) return nullptr;
  const auto end = name.rfind('_');
  const auto what = name.substr(prefix.size(), end - prefix.size());
  const auto protocol = name.substr(end + 1);
  if (what == "barrier") return direct::exchange_packets<direct::BarrierPackets, Processor>;
  if (what == "move" && protocol == "chunks") {
    return direct::exchange_chunks<direct::MoveChunks, Processor>;
  }
  if (what == "move" && protocol == "windows") {
    return direct::exchange_windows<direct::MoveWindows, Processor>;
  }
  if (what == "move") return direct::exchange_packets<direct::MovePackets, Processor>;
  const auto middle = what.find('_');
  const auto type = what.substr(0, middle);
  const auto op = what.substr(middle + 1);
  if (type == "i8") return find_reduction<std::int8_t>(op, protocol);
  if (type == "u8") return find_reduction<std::uint8_t>(op, protocol);
  if (type == "i32") return find_reduction<std::int32_t>(op, protocol);
  if (type == "u32") return find_reduction<std::uint32_t>(op, protocol);
  if (type == "i64") return find_reduction<std::int64_t>(op, protocol);
  if (type == "u64") return find_reduction<std::uint64_t>(op, protocol);
  if (type == "f32") return find_reduction<float>(op, protocol);
  if (type == "f64") return find_reduction<double>(op, protocol);
  return nullptr;
}

}  // namespace fake_gpu
