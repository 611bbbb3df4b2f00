#pragma once

#include <string>

/// Processes of one machine that identify as different hosts.
namespace tutti::test {

/// Gives this process the boot id of a simulated host, so other hosts detect its end only by its
/// connections. Call it in a rank, before its communicator. Returns 0 or an errno. Needs
/// CAP_SYS_ADMIN, for a mount namespace.
[[nodiscard]] int pretend_own_kernel(int host);

/// Why pretend_own_kernel() fails here, determined in a child process. Empty if it works.
[[nodiscard]] std::string why_no_own_kernel();

}  // namespace tutti::test
