#pragma once

#include <map>
#include <memory>
#include <string>

#include "device/context.hpp"

namespace tutti::device::direct {

/// The image's kernels, loaded into a context.
class Kernels {
 public:
  /// The device must be current in the calling thread. Throws Error{system}.
  explicit Kernels(std::shared_ptr<const Context> context);
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  /// None may be running.
  ~Kernels();

  [[nodiscard]] void* at(const std::string& name) const { return functions_.at(name); }

 private:
  std::shared_ptr<const Context> context_;
  void* module_ = nullptr;
  std::map<std::string, void*> functions_;
};

}  // namespace tutti::device::direct
