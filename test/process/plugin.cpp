// A plugin with the library inside: waits for a job that never comes together, as the name of rank
// 0's host is not told in time.
#include <tutti/environment.hpp>

#include "tutti/error.hpp"

/// Whether set-up timed out.
extern "C" bool use_tutti() {
  try {
    (void)tutti::from_environment({});
    return false;
  } catch (const tutti::Error& error) {
    return error.code() == tutti::ErrorCode::usage;
  }
}
