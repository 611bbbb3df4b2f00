#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "tutti/bootstrap.hpp"
#include "tutti/device_span.hpp"
#include "tutti/error.hpp"
#include "tutti/options.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// Tag for calls whose input and output are one buffer.
struct InPlace {};
inline constexpr InPlace in_place{};

/// What is known of one rank; the same on all ranks.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;  ///< 0, 1, … among the ranks of its host
  int host_index = 0;  ///< hosts are numbered in the order of their lowest rank
  std::string host;    ///< its host's name, for people
  int pid = 0;
  std::string address;  ///< where its peers reach it: "10.0.0.1:40123"
  std::string device;   ///< its GPU ("NVIDIA H100 …, 0000:18:00.0"); empty on the host path
  int cores = 0;        ///< processor cores that the process may use
};

/// The bound on set-up that `options`, or else the environment, ask for. Throws Error{usage}.
[[nodiscard]] std::chrono::nanoseconds setup_timeout(const Options& options);

/// Moves data between the ranks of a job. One object a rank; all ranks make the same collective
/// calls in the same order.
///
/// Counts are elements. Buffers belong to the call until it returns. Calls of one communicator come
/// from one thread at a time. Every call throws Error, at the latest when its deadline has passed;
/// none hangs.
class Communicator {
 public:
  /// Collective over the ranks of `bootstrap`. After it has returned, the bootstrap is not used any
  /// more. Throws Error{timeout, mismatch, usage, system}.
  static Communicator create(Bootstrap& bootstrap, const Options& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Says goodbye, waits up to a second for data that is still on its way, never throws.
  ~Communicator();

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// Among the ranks of this host, counted over the whole job.
  [[nodiscard]] int local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;
  [[nodiscard]] int host_count() const noexcept;
  [[nodiscard]] const RankInfo& info(int rank) const;
  /// How long each phase of set-up took, for people: "cards 1.2 ms, links 0.8 ms".
  [[nodiscard]] std::string setup_phases() const;
  /// True if buffers in device memory are served, the same on all ranks.
  [[nodiscard]] bool has_device_path() const noexcept;
  /// Why there is a device path, or why not: "no rank has a GPU".
  [[nodiscard]] const std::string& device_path_reason() const noexcept;
  /// This rank's device, as an index among those that the process sees; -1 on the host path.
  [[nodiscard]] int device() const noexcept;
  /// Name of the algorithm that the latest collective call used.
  [[nodiscard]] const std::string& latest_algorithm() const noexcept;

  /// Rank `root`'s buffer to every other rank, one point-to-point send each. Same count on all
  /// ranks.
  template <Element T, std::size_t N>
  void fan_out(std::span<T, N> buffer, int root, const Call& call = {}) {
    fan_out(buffer.data(), buffer.size(), TypeOf<T>::value, root, call);
  }

  /// Rank `root`'s buffer to every other rank by the fastest way. Same count on all ranks.
  template <Element T, std::size_t N>
  void broadcast(std::span<T, N> buffer, int root, const Call& call = {}) {
    broadcast(buffer.data(), buffer.size(), TypeOf<T>::value, root, call);
  }

  /// recv[i] = op over all ranks of send[i]; the same bits on all ranks. The buffers have the same
  /// count and do not overlap. Average of integers truncates toward zero.
  template <class S, Reducible T, std::size_t N, std::size_t M>
  requires std::same_as<std::remove_const_t<S>, T>
  void all_reduce(std::span<S, N> send, std::span<T, M> recv, Operator op, const Call& call = {}) {
    require_equal_counts(send.size(), recv.size());
    all_reduce(send.data(), recv.data(), recv.size(), TypeOf<T>::value, op, call);
  }
  /// buffer[i] = op over all ranks of buffer[i].
  template <Reducible T, std::size_t N>
  void all_reduce(InPlace, std::span<T, N> buffer, Operator op, const Call& call = {}) {
    all_reduce(buffer.data(), buffer.data(), buffer.size(), TypeOf<T>::value, op, call);
  }

  /// Returns when `buffer` may be reused. Small messages are buffered on the way; large ones wait
  /// for the receiver.
  template <class T, std::size_t N>
  requires Element<std::remove_const_t<T>>
  void send(std::span<T, N> buffer, int to, const Call& call = {}) {
    send(buffer.data(), buffer.size(), TypeOf<std::remove_const_t<T>>::value, to, call);
  }
  /// Receives a message of exactly this count and type; messages of one sender and tag come in the
  /// order sent.
  template <Element T, std::size_t N>
  void recv(std::span<T, N> buffer, int from, const Call& call = {}) {
    recv(buffer.data(), buffer.size(), TypeOf<T>::value, from, call);
  }
  /// Both at once, so that a cycle of ranks can't wait for itself. The buffers do not overlap.
  template <class S, Element T, std::size_t N, std::size_t M>
  requires std::same_as<std::remove_const_t<S>, T>
  void send_recv(std::span<S, N> send, int to, std::span<T, M> recv, int from,
                 const Call& call = {}) {
    send_recv(send.data(), send.size(), to, recv.data(), recv.size(), from, TypeOf<T>::value, call);
  }

  /// Nobody returns before all have come.
  void barrier(const Call& call = {});

  // The same calls for callers that hold type and address at run time. `count` is elements of
  // `type`.
  void fan_out(void* buffer, std::size_t count, Type type, int root, const Call& call = {});
  void broadcast(void* buffer, std::size_t count, Type type, int root, const Call& call = {});
  void all_reduce(const void* send, void* recv, std::size_t count, Type type, Operator op,
                  const Call& call = {});
  void send(const void* buffer, std::size_t count, Type type, int to, const Call& call = {});
  void recv(void* buffer, std::size_t count, Type type, int from, const Call& call = {});
  void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                 std::size_t recv_count, int from, Type type, const Call& call = {});

  // The same on device memory, through NCCL: each call is queued on `stream` and returns;
  // synchronize() waits for it. One device a rank: the host-local rank among those that the process
  // sees. NCCL's arithmetic. Error{usage} where the job has no device path (device_path_reason()
  // says why).
  template <Element T>
  void fan_out(device_span<T> buffer, int root, Stream stream, const Call& call = {}) {
    device_fan_out(buffer.data(), buffer.size(), TypeOf<T>::value, root, stream, call);
  }
  template <Element T>
  void broadcast(device_span<T> buffer, int root, Stream stream, const Call& call = {}) {
    device_broadcast(buffer.data(), buffer.size(), TypeOf<T>::value, root, stream, call);
  }
  template <Element T>
  void all_reduce(device_span<T> send, device_span<T> recv, Operator op, Stream stream,
                  const Call& call = {}) {
    require_equal_counts(send.size(), recv.size());
    device_all_reduce(send.data(), recv.data(), recv.size(), TypeOf<T>::value, op, stream, call);
  }
  template <Element T>
  void send(device_span<T> buffer, int to, Stream stream, const Call& call = {}) {
    device_send(buffer.data(), buffer.size(), TypeOf<T>::value, to, stream, call);
  }
  template <Element T>
  void recv(device_span<T> buffer, int from, Stream stream, const Call& call = {}) {
    device_recv(buffer.data(), buffer.size(), TypeOf<T>::value, from, stream, call);
  }
  template <Element T>
  void send_recv(device_span<T> send, int to, device_span<T> recv, int from, Stream stream,
                 const Call& call = {}) {
    device_send_recv(send.data(), send.size(), to, recv.data(), recv.size(), from, TypeOf<T>::value,
                     stream, call);
  }
  void device_fan_out(void* buffer, std::size_t count, Type type, int root, Stream stream,
                      const Call& call = {});
  void device_broadcast(void* buffer, std::size_t count, Type type, int root, Stream stream,
                        const Call& call = {});
  void device_all_reduce(const void* send, void* recv, std::size_t count, Type type, Operator op,
                         Stream stream, const Call& call = {});
  void device_send(const void* buffer, std::size_t count, Type type, int to, Stream stream,
                   const Call& call = {});
  void device_recv(void* buffer, std::size_t count, Type type, int from, Stream stream,
                   const Call& call = {});
  void device_send_recv(const void* send, std::size_t send_count, int to, void* recv,
                        std::size_t recv_count, int from, Type type, Stream stream,
                        const Call& call = {});
  /// A barrier in the order of `stream`.
  void device_barrier(Stream stream, const Call& call = {});
  /// Waits until all that is queued on `stream` is done, under the call's deadline; turns what went
  /// wrong there into Error.
  void synchronize(Stream stream, const Call& call = {});

  /// Collective. The orderly end: all ranks have made the same calls, and all data has arrived;
  /// throws Error{mismatch} otherwise. Afterwards only the destructor is legal.
  void finalize(const Call& call = {});

  /// Ends the job's communication: every other rank's current or next call throws Error{aborted}
  /// with `reason`.
  void abort(const std::string& reason) noexcept;

 private:
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  static void require_equal_counts(std::size_t send, std::size_t recv);
  std::unique_ptr<State> state_;
};

}  // namespace tutti
