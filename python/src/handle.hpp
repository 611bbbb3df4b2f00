#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "buffer.hpp"
#include "tutti/tutti.hpp"

/// What Python holds: communicators, and calls that were started.
namespace tutti::python {
namespace nb = nanobind;

using Seconds = std::optional<double>;

/// Throws ValueError for what is not a time.
inline std::optional<std::chrono::nanoseconds> duration(const Seconds& seconds) {
  if (!seconds) return std::nullopt;
  if (!(*seconds > 0) || *seconds > 1e9) {
    throw nb::value_error("timeout must be a positive number of seconds, up to 1e9");
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(*seconds));
}

/// What Python passes instead of a send buffer.
struct InPlaceObject {};

/// The blocks of a buffer in a v-form.
struct BlockLists {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> displacements;
};

/// A call whose buffers Python lends.
struct Prepared {
  Collective call;
  Buffer send;
  Buffer recv;
  // What the call's spans point to; moving a vector leaves its elements in place.
  BlockLists blocks;
  BlockLists recv_blocks;
};

/// A call that was started. Keeps its buffers.
class Request {
 public:
  Request(Work work, Buffer send, Buffer recv, nb::object communicator)
      : work_(std::move(work)),
        send_(std::move(send)),
        recv_(std::move(recv)),
        communicator_(std::move(communicator)) {}

  void wait() {
    const nb::gil_scoped_release released;
    work_.wait();
  }
  bool test() {
    const nb::gil_scoped_release released;
    return work_.test();
  }
  [[nodiscard]] int source() const { return work_.source(); }
  /// The call uses the buffers until its end.
  ~Request() {
    if (!work_.is_active()) return;
    const nb::gil_scoped_release released;
    try {
      work_.wait();
    } catch (const std::exception&) {
      // The next call on the communicator throws it, too.
    }
  }
  Request(Request&&) = default;
  Request& operator=(Request&&) = default;

 private:
  Work work_;
  Buffer send_;
  Buffer recv_;
  nb::object communicator_;
};

/// Owns a Communicator until Free().
class Handle {
 public:
  explicit Handle(Communicator communicator) : communicator_(std::move(communicator)) {}

  Communicator& get() {
    if (!communicator_)
      throw Error(ErrorCode::usage,
                  "the communicator was freed: make no call after Free() or Finalize()");
    return *communicator_;
  }
  void run(const Prepared& prepared, const Seconds& timeout) {
    auto& communicator = get();
    const CallOptions options{.timeout = duration(timeout)};
    const nb::gil_scoped_release released;
    communicator.run(prepared.call, options);
  }
  int run(const Message& message, const CallOptions& options) {
    auto& communicator = get();
    const nb::gil_scoped_release released;
    return communicator.run(message, options);
  }
  void free() {
    const nb::gil_scoped_release released;
    communicator_.reset();
  }
  void finalize(const Seconds& timeout) {
    auto& communicator = get();
    const CallOptions options{.timeout = duration(timeout)};
    const nb::gil_scoped_release released;
    communicator.finalize(options);
    communicator_.reset();
  }

 private:
  std::optional<Communicator> communicator_;
};

/// Non-blocking Handle::run() of the communicator `self`.
inline Request start(nb::handle self, Prepared prepared, const Seconds& timeout) {
  auto& communicator = nb::cast<Handle&>(self).get();
  auto work = communicator.start(prepared.call, {.timeout = duration(timeout)});
  return {std::move(work), std::move(prepared.send), std::move(prepared.recv), nb::borrow(self)};
}

/// The methods of Communicator.
void add_collectives(nb::class_<Handle>& type);
void add_messages(nb::class_<Handle>& type);

Handle make_from_environment(const Seconds& timeout);
/// The functions exchange bytes, as those of mpi4py do.
Handle make_from_exchange(int rank, int size, nb::object all_gather, nb::object broadcast,
                          nb::object barrier, const Seconds& timeout);

}  // namespace tutti::python
