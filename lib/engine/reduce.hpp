#pragma once

#include "transport/request.hpp"
#include "tutti/types.hpp"

namespace tutti::engine {

/// The function that combines elements of `type` by `op` (average combines as sum); null where
/// there is none.
[[nodiscard]] transport::ReduceFunction reduce_function(Type type, Operator op);

/// buffer[i] /= ranks; integers truncate toward zero.
void divide(std::byte* buffer, std::size_t count, Type type, int ranks);

}  // namespace tutti::engine
