#pragma once

#include <array>
#include <string>

#include "communicator/backend.hpp"
#include "control/group.hpp"

namespace tutti {

/// Checks what a caller passes against the operation's shape, as far as one rank can: throws
/// Error{usage} that names the argument, its value and what would fit.
[[nodiscard]] CheckedCollective check_arguments(const Collective& call,
                                                const control::Group& group);
void check_arguments(const Message& message, const control::Group& group);

/// Throws Error{usage} where the operator does not exist for the type in host memory.
void require_reducible(const CheckedCollective& call);

/// Throws Error{usage} where `rank` is none of the group's, with the group's ranks in its own
/// numbers and in the job's. `what`: "root".
void require_rank(const char* what, int rank, const control::Group& group);
/// "rank 1"; where the group's numbers are not the job's "rank 1 of this communicator (rank 3 of
/// the job)".
[[nodiscard]] std::string rank_text(int rank, const control::Group& group);

/// check_arguments() of one rank's calls. Most programs repeat theirs, so the latest call of each
/// operation is remembered.
class CheckedArguments {
 public:
  /// Valid until the next call.
  [[nodiscard]] const CheckedCollective& of(const Collective& call, const control::Group& group) {
    const auto index = static_cast<std::size_t>(call.operation);
    auto& latest = latest_[index < latest_.size() ? index : 0];
    if (!is_same(call, latest.call)) {
      latest.checked = check_arguments(call, group);
      latest.call = call;
    }
    return latest.checked;
  }

 private:
  struct Latest {
    Collective call;
    CheckedCollective checked;
  };
  /// In all that a check looks at: not the stream. False for v-forms: their counts are the
  /// caller's, who may have changed them.
  [[nodiscard]] static bool is_same(const Collective& a, const Collective& b) {
    return a.operation != Operation::none && a.operation == b.operation && a.type == b.type &&
           a.op == b.op && a.factor == b.factor && a.root == b.root && a.send == b.send &&
           a.send_count == b.send_count && a.recv == b.recv && a.recv_count == b.recv_count &&
           a.in_place == b.in_place && a.counts.empty() && b.counts.empty() &&
           a.recv_counts.empty() && b.recv_counts.empty() && a.displacements.empty() &&
           a.recv_displacements.empty();
  }

  std::array<Latest, operation_count> latest_{};
};

}  // namespace tutti
