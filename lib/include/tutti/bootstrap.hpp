#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/deadline.hpp"
#include "tutti/export.hpp"

namespace tutti {

/// What a Bootstrap exchanges.
using Bytes = std::vector<std::byte>;

/// How the ranks of a job first exchange a few bytes: what a communicator needs to be made, and
/// nothing later. `tutti/mpi.hpp` implements it over any MPI; bring your own to start tutti by
/// something else.
///
/// All ranks make the same calls in the same order. A call that can't be finished by `deadline`
/// throws Error{timeout} and leaves the object unusable.
class TUTTI_EXPORT Bootstrap {
 public:
  Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;
  virtual ~Bootstrap() = default;

  /// This process's number, from 0.
  [[nodiscard]] virtual int rank() const = 0;
  /// How many ranks the job has.
  [[nodiscard]] virtual int size() const = 0;
  /// For people: "MPI (Open MPI v4.1.4)".
  [[nodiscard]] virtual std::string source() const = 0;

  /// Contributions of any length (some KiB at most); result[r] is what rank r passed.
  virtual std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) = 0;
  /// Returns on every rank what `root` passed; what the others pass is ignored.
  virtual Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) = 0;
  /// Blocks until every rank has entered.
  virtual void barrier(Deadline deadline) = 0;
};

/// The bootstrap of a process that is alone: rank 0 of 1.
class TUTTI_EXPORT AloneBootstrap final : public Bootstrap {
 public:
  /// 0
  [[nodiscard]] int rank() const override { return 0; }
  /// 1
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string source() const override { return "no launcher: one process, alone"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline) override { return {mine}; }
  Bytes broadcast(const Bytes& from_root, int, Deadline) override { return from_root; }
  void barrier(Deadline) override {}
};

}  // namespace tutti
