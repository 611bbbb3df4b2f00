#pragma once

#include <string>

/// Processes of one machine that take each other for processes of different hosts.
namespace tutti::test {

/// Gives the calling process the boot id of a made-up host, so that ranks of other hosts see its
/// end by its connections alone. Call it in a rank, before its communicator. Returns 0, or errno of
/// what failed: it takes CAP_SYS_ADMIN, for a mount namespace.
[[nodiscard]] int pretend_own_kernel(int host);

/// Why pretend_own_kernel() fails here, as a child process finds out; empty where it works.
[[nodiscard]] std::string why_no_own_kernel();

}  // namespace tutti::test
