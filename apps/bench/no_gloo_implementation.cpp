// Replaces gloo_implementation.cpp if Gloo was not found at build time.
#include "implementations.hpp"

namespace tutti::app::bench {

std::string gloo_version() {
  return "not built in";
}

std::unique_ptr<Implementation> make_gloo_implementation(JobSession& /*job*/,
                                                         std::chrono::nanoseconds /*timeout*/) {
  throw Error(ErrorCode::usage,
              "--vs gloo is not available: tutti was built without Gloo; install libgloo-dev and "
              "build it with -Dgloo=enabled");
}

}  // namespace tutti::app::bench
