// The kernels of the direct path, one for each protocol: "tutti_direct_move_packets",
// "tutti_direct_f32_sum_chunks" and so on, as kernel_name() in image.hpp makes them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "chunks.hpp"
#include "packets.hpp"
#include "windows.hpp"

namespace tutti::device::direct {
namespace {

struct Gpu {
  __device__ __forceinline__ int channel() const { return static_cast<int>(blockIdx.x); }
  __device__ __forceinline__ int channels() const { return static_cast<int>(gridDim.x); }
  __device__ __forceinline__ std::uint64_t thread() const { return threadIdx.x; }
  __device__ __forceinline__ std::uint64_t threads() const { return blockDim.x; }
  // In chunks, the last warp publishes and the others work.
  __device__ __forceinline__ std::uint64_t workers() const { return blockDim.x - 32; }
  __device__ __forceinline__ bool works() const { return threadIdx.x < blockDim.x - 32; }
  __device__ __forceinline__ bool publishes() const { return !works(); }
  __device__ __forceinline__ int publisher() const {
    return static_cast<int>(threadIdx.x - (blockDim.x - 32));
  }
  __device__ __forceinline__ int publishers() const { return 32; }
  /// Whether all threads go on.
  __device__ __forceinline__ bool synchronize(bool goes_on) const {
    return __syncthreads_and(goes_on ? 1 : 0) != 0;
  }

  __device__ __forceinline__ void fence() const { __threadfence(); }
  __device__ __forceinline__ void fence_system() const { __threadfence_system(); }
  __device__ __forceinline__ std::byte* reach(std::uint64_t address) const {
    return reinterpret_cast<std::byte*>(address);
  }
  __device__ __forceinline__ void store(Packet* to, const Packet& packet) const {
    asm volatile(
        "{\n.reg .b128 both;\nmov.b128 both, {%1, %2};\nst.relaxed.sys.global.b128 [%0], "
        "both;\n}" ::"l"(to),
        "l"(packet.data), "l"(packet.sequence)
        : "memory");
  }
  __device__ __forceinline__ Packet load(const Packet* from) const {
    Packet packet;
    asm volatile(
        "{\n.reg .b128 both;\nld.relaxed.sys.global.b128 both, [%2];\nmov.b128 {%0, %1}, both;\n}"
        : "=l"(packet.data), "=l"(packet.sequence)
        : "l"(from)
        : "memory");
    return packet;
  }
  __device__ __forceinline__ void store(std::uint64_t* to, std::uint64_t value) const {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  }
  __device__ __forceinline__ std::uint64_t load(const std::uint64_t* from) const {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ __forceinline__ void store_release(std::uint64_t* to, std::uint64_t value) const {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  }
  __device__ __forceinline__ std::uint64_t load_acquire(const std::uint64_t* from) const {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
  }
  /// A look at host memory takes a microsecond, so not in every turn.
  __device__ __forceinline__ bool is_time_to_look_up(std::uint32_t turn) const {
    return turn % 4096 == 0;
  }
  __device__ __forceinline__ std::uint32_t load(const std::uint32_t* from) const {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
};

/// How a type is computed with: 16-bit floats as float, so that a sum is rounded once.
template <class T>
struct Number {
  using Wide = T;
  static __device__ Wide widen(T value) { return value; }
  static __device__ T narrow(Wide value) { return value; }
};
template <>
struct Number<__half> {
  using Wide = float;
  static __device__ float widen(__half value) { return __half2float(value); }
  static __device__ __half narrow(float value) { return __float2half_rn(value); }
};
template <>
struct Number<__nv_bfloat16> {
  using Wide = float;
  static __device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __nv_bfloat16 narrow(float value) { return __float2bfloat16_rn(value); }
};

struct Sum {
  template <class T>
  static __device__ T apply(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  static __device__ T apply(T a, T b) {
    return a * b;
  }
};
/// Propagates NaN.
struct Min {
  template <class T>
  static __device__ T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  static __device__ T apply(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

template <class T, class Op, bool averages>
struct Arithmetic {
  static constexpr int lanes = data_in_packet / static_cast<int>(sizeof(T));
  using Wide = typename Number<T>::Wide;
  Wide values[lanes];

  __device__ __forceinline__ void add(std::uint64_t data, bool is_first) {
    T in[lanes];
    memcpy(in, &data, sizeof data);
    for (int lane = 0; lane < lanes; ++lane) {
      const Wide value = Number<T>::widen(in[lane]);
      values[lane] = is_first ? value : Op::apply(values[lane], value);
    }
  }
  __device__ __forceinline__ std::uint64_t value(int ranks) const {
    T out[lanes];
    for (int lane = 0; lane < lanes; ++lane) {
      Wide result = values[lane];
      if constexpr (averages) result /= static_cast<Wide>(ranks);
      out[lane] = Number<T>::narrow(result);
    }
    std::uint64_t data;
    memcpy(&data, out, sizeof data);
    return data;
  }
};

}  // namespace

#define TUTTI_KERNEL(name, threads, ...)                       \
  extern "C" __global__ void __launch_bounds__(threads)        \
      tutti_direct_##name(const __grid_constant__ Call call) { \
    __VA_ARGS__(call, Gpu());                                  \
  }
#define TUTTI_MOVE(name, Move)                                       \
  TUTTI_KERNEL(name##_packets, 512, exchange_packets<Move##Packets>) \
  TUTTI_KERNEL(name##_chunks, 544, exchange_chunks<Move##Chunks>)    \
  TUTTI_KERNEL(name##_windows, 512, exchange_windows<Move##Windows>)
#define TUTTI_REDUCE(name, ...) \
  TUTTI_KERNEL(name##_packets, 512, exchange_packets<ReducePackets<Arithmetic<__VA_ARGS__>>>)
#define TUTTI_REDUCE_MANY(name, ...)                                                       \
  TUTTI_KERNEL(name##_chunks, 544, exchange_chunks<ReduceChunks<Arithmetic<__VA_ARGS__>>>) \
  TUTTI_KERNEL(name##_windows, 512, exchange_windows<ReduceWindows<Arithmetic<__VA_ARGS__>>>)
#define TUTTI_REDUCTIONS(name, type)                 \
  TUTTI_REDUCE(name##_sum, type, Sum, false)         \
  TUTTI_REDUCE(name##_product, type, Product, false) \
  TUTTI_REDUCE(name##_min, type, Min, false)         \
  TUTTI_REDUCE(name##_max, type, Max, false)

TUTTI_KERNEL(barrier_packets, 512, exchange_packets<BarrierPackets>)
TUTTI_MOVE(move, Move)
TUTTI_REDUCTIONS(i8, std::int8_t)
TUTTI_REDUCTIONS(u8, std::uint8_t)
TUTTI_REDUCTIONS(i32, std::int32_t)
TUTTI_REDUCTIONS(u32, std::uint32_t)
TUTTI_REDUCTIONS(i64, std::int64_t)
TUTTI_REDUCTIONS(u64, std::uint64_t)
TUTTI_REDUCTIONS(f16, __half)
TUTTI_REDUCTIONS(bf16, __nv_bfloat16)
TUTTI_REDUCTIONS(f32, float)
TUTTI_REDUCTIONS(f64, double)
TUTTI_REDUCE(f16_average, __half, Sum, true)
TUTTI_REDUCE(bf16_average, __nv_bfloat16, Sum, true)
// Large buffers are of floats, and summed.
TUTTI_REDUCE_MANY(f16_sum, __half, Sum, false)
TUTTI_REDUCE_MANY(bf16_sum, __nv_bfloat16, Sum, false)
TUTTI_REDUCE_MANY(f32_sum, float, Sum, false)
TUTTI_REDUCE_MANY(f64_sum, double, Sum, false)
TUTTI_REDUCE_MANY(f16_average, __half, Sum, true)
TUTTI_REDUCE_MANY(bf16_average, __nv_bfloat16, Sum, true)

}  // namespace tutti::device::direct
