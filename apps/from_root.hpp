#pragma once

#include <functional>
#include <string>

#include "operation.hpp"

namespace tutti::app {

/// Operations that bring the root's buffer to all: `run` moves it, `sent` says what the root did.
int perform_from_root(Job& job, const OperationOptions& options, const std::string& name,
                      const std::function<std::string(std::size_t bytes)>& sent,
                      const std::function<void(void*, std::size_t)>& run);

}  // namespace tutti::app
