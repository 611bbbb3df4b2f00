#pragma once

#include <memory>
#include <string_view>

#include "communicator/backend.hpp"
#include "control/plane.hpp"
#include "engine/shared_call.hpp"
#include "transport/arena.hpp"

namespace tutti {

/// How the calls of a communicator go whose ranks share memory. A call that blocks goes by itself,
/// without the driver, as long as its ranks come at about the same time.
class SharedPath {
 public:
  /// As the algorithm of a call.
  static constexpr std::string_view name = "shared";

  SharedPath(control::Plane& plane, std::shared_ptr<transport::Arena> arena, std::size_t room,
             const control::Group& group);

  [[nodiscard]] engine::SharedCall begin(const CheckedCollective& call, std::uint64_t fingerprint);
  /// True when the call is done. False where it must wait for long, or where an earlier one is not
  /// done: then the driver has to take it.
  [[nodiscard]] bool run(engine::SharedCall& call) const;

 private:
  control::Plane& plane_;
  transport::Room room_;
  CopyChoice copies_;
  int spins_;
};

}  // namespace tutti
