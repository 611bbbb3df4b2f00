#pragma once

#include "base/call_signature.hpp"
#include "communicator/backend.hpp"

namespace tutti {

/// What ranks of a call must agree on. Of v-forms whose counts all ranks know alike that is all
/// counts; of the others, none.
[[nodiscard]] CallSignature signature_of(const CheckedCollective& call);

/// Throws Error{usage} where the operator does not exist for the type in host memory.
void require_reducible(const CheckedCollective& call);

}  // namespace tutti
