// A plugin that contains the library. Its set-up times out, because the name of rank 0's host is
// not resolved in time.
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
