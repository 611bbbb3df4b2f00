// How communicators are made.
#include <string>
#include <utility>
#include <vector>

#include "handle.hpp"
#include "tutti/environment.hpp"

namespace tutti::python {
namespace {

/// The bootstrap of from_mpi(): functions of Python that exchange bytes.
class PythonBootstrap final : public Bootstrap {
 public:
  PythonBootstrap(int rank, int size, nb::object all_gather, nb::object broadcast,
                  nb::object barrier)
      : rank_(rank),
        size_(size),
        all_gather_(std::move(all_gather)),
        broadcast_(std::move(broadcast)),
        barrier_(std::move(barrier)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string source() const override { return "mpi4py"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline) override {
    std::vector<Bytes> result;
    for (const auto item : nb::cast<nb::list>(all_gather_(object_of(mine)))) {
      result.push_back(bytes_of(item));
    }
    return result;
  }
  Bytes broadcast(const Bytes& from_root, int root, Deadline) override {
    return bytes_of(broadcast_(object_of(from_root), root));
  }
  void barrier(Deadline) override { barrier_(); }

 private:
  static nb::bytes object_of(const Bytes& bytes) {
    return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  static Bytes bytes_of(nb::handle object) {
    const auto bytes = nb::cast<nb::bytes>(object);
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.c_str());
    return {begin, begin + bytes.size()};
  }

  int rank_;
  int size_;
  nb::object all_gather_;
  nb::object broadcast_;
  nb::object barrier_;
};

}  // namespace

Handle make_from_environment(const Seconds& timeout) {
  const Options options{.timeout = duration(timeout)};
  const nb::gil_scoped_release released;
  return Handle(tutti::from_environment(options));
}

Handle make_from_exchange(int rank, int size, nb::object all_gather, nb::object broadcast,
                          nb::object barrier, const Seconds& timeout) {
  PythonBootstrap bootstrap(rank, size, std::move(all_gather), std::move(broadcast),
                            std::move(barrier));
  return Handle(Communicator::create(bootstrap, {.timeout = duration(timeout)}));
}

}  // namespace tutti::python
